# Parhelion with the extras for ROS 2, the viewer, Gymnasium and campaigns; runs on the CPU, or on an NVIDIA GPU with `--gpus all`.
#
#     docker build -t parhelion .
#     docker run --rm -v "$PWD:/work" parhelion demo
#     docker run --rm --gpus all -v "$PWD:/work" parhelion doctor
FROM python:3.12-slim-trixie AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY examples examples
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim-trixie
RUN apt-get update \
    && apt-get install -y --no-install-recommends libatomic1 libllvm19 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/parhelion-*.whl)[ros,view,serve,gym,campaign]" && rm -r /wheels
# Any user may run it: the kernel cache goes to HOME.
ENV HOME=/home/parhelion NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics
RUN mkdir -m 777 /home/parhelion /work
USER 1000
WORKDIR /work
ENTRYPOINT ["parhelion"]
CMD ["--help"]
