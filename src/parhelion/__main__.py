"""`python -m parhelion`."""

from parhelion.cli import main

if __name__ == "__main__":
    main()
