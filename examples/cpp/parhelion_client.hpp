// Client of `parhelion serve` in one header: verbs as JSON text, records as columns of numbers.
//
//     parhelion::Client client("127.0.0.1", 8917);
//     client.call(R"({"op": "pause"})");
//     client.call(R"({"op": "step", "steps": 10})");
//     parhelion::Record cloud = client.latest("top");
//     std::vector<float> xyz = cloud.as<float>("xyz");        // x, y, z of every point [m]
//
// It needs C++17 and POSIX sockets, and no other library. Calls wait for their replies; refused verbs throw
// parhelion::Error with the reply of the server. The protocol is described in docs/serve.md.

#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace parhelion {

class Error : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Column {
    std::string name, dtype;
    std::vector<std::size_t> shape;
    std::size_t offset = 0;

    std::size_t size() const {
        std::size_t count = 1;
        for (std::size_t one : shape) count *= one;
        return count;
    }
};

// A binary message: "PHR1", the length of its JSON header, the header, and the columns (little endian).
class Record {
  public:
    std::string header;  // JSON with sensor, frame, time_ns, type, columns, about
    std::vector<Column> columns;

    explicit Record(const std::string& message) {
        if (message.size() < 8 || message.compare(0, 4, "PHR1") != 0) throw Error("not a record");
        std::uint32_t length = 0;
        std::memcpy(&length, message.data() + 4, 4);
        if (length > message.size() - 8) throw Error("the record is not complete");
        header = message.substr(8, length);
        data_ = message.substr(8 + length);
        read_columns();
    }

    const Column& column(const std::string& name) const {
        for (const Column& one : columns)
            if (one.name == name) return one;
        throw Error("the record has no column " + name);
    }

    // Values of a column, converted to T.
    template <typename T>
    std::vector<T> as(const std::string& name) const {
        const Column& one = column(name);
        if (one.dtype == "float32") return convert<T, float>(one);
        if (one.dtype == "float64") return convert<T, double>(one);
        if (one.dtype == "uint8" || one.dtype == "bool") return convert<T, std::uint8_t>(one);
        if (one.dtype == "int8") return convert<T, std::int8_t>(one);
        if (one.dtype == "uint16") return convert<T, std::uint16_t>(one);
        if (one.dtype == "int16") return convert<T, std::int16_t>(one);
        if (one.dtype == "uint32") return convert<T, std::uint32_t>(one);
        if (one.dtype == "int32") return convert<T, std::int32_t>(one);
        if (one.dtype == "uint64") return convert<T, std::uint64_t>(one);
        if (one.dtype == "int64") return convert<T, std::int64_t>(one);
        throw Error("no conversion for the type " + one.dtype);
    }

  private:
    std::string data_;

    template <typename T, typename Stored>
    std::vector<T> convert(const Column& one) const {
        const std::size_t count = one.size();
        if (count > data_.size() / sizeof(Stored) || one.offset > data_.size() - count * sizeof(Stored))
            throw Error("the column " + one.name + " is not complete");
        std::vector<Stored> stored(count);
        if (count) std::memcpy(stored.data(), data_.data() + one.offset, count * sizeof(Stored));
        return std::vector<T>(stored.begin(), stored.end());
    }

    // The header is compact JSON, and "columns":[["xyz","float64",[100,3],0],...] has a fixed form.
    void read_columns() {
        const std::string key = "\"columns\":[";
        std::size_t at = header.find(key);
        if (at == std::string::npos) throw Error("the record has no columns");
        at += key.size();
        while (at < header.size() && header[at] == '[') {
            Column one;
            at += 1;
            one.name = text(at);
            one.dtype = text(at);
            expect(at, '[');
            while (header.at(at) != ']') one.shape.push_back(number(at));
            at += 2;  // "],"
            one.offset = number(at);
            expect(at, ']');
            columns.push_back(one);
            if (header.at(at) == ',') at += 1;
        }
    }

    void expect(std::size_t& at, char sign) const {
        if (header.at(at) != sign) throw Error("the header of the record is damaged");
        at += 1;
    }

    std::string text(std::size_t& at) const {
        expect(at, '"');
        const std::size_t end = header.find('"', at);
        if (end == std::string::npos) throw Error("the header of the record is damaged");
        std::string found = header.substr(at, end - at);
        at = end + 1;
        expect(at, ',');
        return found;
    }

    std::size_t number(std::size_t& at) const {
        std::size_t used = 0;
        const std::size_t found = std::stoull(header.substr(at, 24), &used);
        at += used;
        if (header.at(at) == ',') at += 1;
        return found;
    }
};

class Client {
  public:
    Client(const std::string& address, int port, const std::string& token = "") {
        socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in place{};
        place.sin_family = AF_INET;
        place.sin_port = htons(static_cast<std::uint16_t>(port));
        if (inet_pton(AF_INET, address.c_str(), &place.sin_addr) != 1) throw Error("not an IPv4 address: " + address);
        if (socket_ < 0 || ::connect(socket_, reinterpret_cast<sockaddr*>(&place), sizeof place) != 0) {
            if (socket_ >= 0) ::close(socket_);
            throw Error("cannot connect to " + address + ":" + std::to_string(port));
        }
        const int yes = 1;
        setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        shake_hands(address + ":" + std::to_string(port), token);
    }
    ~Client() { ::close(socket_); }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    // Send a verb, for example {"op": "step", "steps": 10}, and return the reply as JSON text.
    std::string call(const std::string& verb) {
        send(0x1, verb);
        const Message reply = wait(true);
        if (reply.binary || reply.data.find("\"ok\": false") != std::string::npos) throw Error(reply.data);
        return reply.data;
    }

    // Latest record of a sensor.
    Record latest(const std::string& sensor) {
        send(0x1, "{\"op\": \"latest\", \"sensor\": \"" + sensor + "\"}");
        const Message reply = wait(true);
        if (!reply.binary) throw Error(reply.data);
        return Record(reply.data);
    }

    // Receive the records of a sensor from now on with next().
    void subscribe(const std::string& sensor) { call("{\"op\": \"subscribe\", \"sensor\": \"" + sensor + "\"}"); }

    Record next() {
        if (!records_.empty()) {
            const std::string first = records_.front();
            records_.pop_front();
            return Record(first);
        }
        return Record(wait(false).data);
    }

  private:
    struct Message {
        bool binary = false;
        std::string data;
    };
    int socket_ = -1;
    std::deque<std::string> records_;  // of subscriptions, while a reply was awaited
    std::mt19937 random_{std::random_device{}()};

    void shake_hands(const std::string& host, const std::string& token) {
        std::string key;
        const char* letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        for (int k = 0; k < 21; ++k) key += letters[random_() % 64];
        key += "A==";
        std::string request = "GET / HTTP/1.1\r\nHost: " + host + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
        request += "Sec-WebSocket-Key: " + key + "\r\nSec-WebSocket-Version: 13\r\n";
        request += "Sec-WebSocket-Protocol: parhelion.v1\r\n";
        if (!token.empty()) request += "Authorization: Bearer " + token + "\r\n";
        write(request + "\r\n");
        std::string answer;
        while (answer.size() < 16384 && answer.find("\r\n\r\n") == std::string::npos) answer += read(1);
        if (answer.compare(0, 12, "HTTP/1.1 101") != 0) throw Error(answer.substr(0, answer.find("\r\n")));
    }

    void write(const std::string& data) {
        std::size_t sent = 0;
        while (sent < data.size()) {
            const ssize_t some = ::send(socket_, data.data() + sent, data.size() - sent, MSG_NOSIGNAL);
            if (some <= 0) throw Error("the connection was closed");
            sent += static_cast<std::size_t>(some);
        }
    }

    std::string read(std::size_t count) {
        std::string data(count, '\0');
        std::size_t got = 0;
        while (got < count) {
            const ssize_t some = ::recv(socket_, &data[got], count - got, 0);
            if (some <= 0) throw Error("the connection was closed");
            got += static_cast<std::size_t>(some);
        }
        return data;
    }

    // Frames of clients are masked (RFC 6455).
    void send(unsigned char kind, const std::string& data) {
        std::string frame(1, static_cast<char>(0x80 | kind));
        if (data.size() < 126) {
            frame += static_cast<char>(0x80 | data.size());
        } else {
            const bool is_long = data.size() > 65535;
            frame += static_cast<char>(0x80 | (is_long ? 127 : 126));
            for (int byte = is_long ? 7 : 1; byte >= 0; --byte) frame += static_cast<char>((data.size() >> (8 * byte)) & 255);
        }
        char mask[4];
        for (char& one : mask) one = static_cast<char>(random_() & 255);
        frame.append(mask, 4);
        for (std::size_t k = 0; k < data.size(); ++k) frame += static_cast<char>(data[k] ^ mask[k % 4]);
        write(frame);
    }

    Message receive() {
        Message message;
        for (bool last = false; !last;) {
            const std::string head = read(2);
            const unsigned char kind = head[0] & 0x0f;
            std::uint64_t size = head[1] & 0x7f;
            if (size >= 126) {
                const std::string more = read(size == 126 ? 2 : 8);
                size = 0;
                for (unsigned char one : more) size = (size << 8) | one;
            }
            if (size > (1ull << 30)) throw Error("the message is too long");
            const std::string data = read(static_cast<std::size_t>(size));
            if (kind == 0x8) throw Error("the server closed the connection");
            if (kind == 0x9) send(0xa, data);  // ping
            if (kind >= 0x8) continue;
            if (kind != 0) message.binary = kind == 0x2;
            message.data += data;
            last = (head[0] & 0x80) != 0;
        }
        return message;
    }

    // Next reply, or next record of a subscription. Replies that are records have an "id".
    Message wait(bool reply) {
        while (true) {
            Message message = receive();
            const bool is_reply = !message.binary || message.data.substr(0, 65536).find("\"id\":") != std::string::npos;
            if (is_reply == reply) return message;
            if (!is_reply) records_.push_back(message.data);
        }
    }
};

}  // namespace parhelion
