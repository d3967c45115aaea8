// A scenario in rain, controlled from C++:
//
//     parhelion serve examples/warehouse.yaml --paused
//     g++ -std=c++17 -O2 examples/cpp/rain.cpp -o rain && ./rain 127.0.0.1 8917 top

#include <cstdio>
#include <cstdlib>

#include "parhelion_client.hpp"

int main(int count, char** words) {
    if (count < 4) {
        std::fprintf(stderr, "usage: rain ADDRESS PORT SENSOR [TOKEN]\n");
        return 2;
    }
    try {
        parhelion::Client client(words[1], std::atoi(words[2]), count > 4 ? words[4] : "");
        const std::string sensor = words[3];
        client.call(R"({"op": "pause"})");
        for (const char* rate : {"0", "25", "100"}) {
            client.call(std::string(R"({"op": "weather", "changes": {"rain_rate_mm_h": )") + rate + "}}");
            client.call(R"({"op": "step", "steps": 20})");
            const parhelion::Record cloud = client.latest(sensor);
            const std::vector<float> range = cloud.as<float>("range");
            double sum = 0;
            for (float one : range) sum += one;
            std::printf("%s mm/h: %zu points, mean range %.3f m\n", rate, range.size(), sum / range.size());
        }
        client.subscribe(sensor);
        client.call(R"({"op": "play"})");
        for (int frame = 0; frame < 3; ++frame)
            std::printf("record with %zu points\n", client.next().column("xyz").shape.at(0));
        client.call(R"({"op": "quit"})");
    } catch (const parhelion::Error& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}
