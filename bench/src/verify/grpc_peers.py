"""A gRPC server, and a client that judges what reaches it through a proxy.

grpc_peers.py serve                      prints the port of a server without TLS, and serves until standard input ends
grpc_peers.py ask HOST:PORT [CA]         asks through what listens there, with TLS by the certificate CA, and prints a line for each check
"""

import sys
import threading
import time
from concurrent import futures

import grpc

SERVICE = "cosm.Check"
LARGE = 3 << 20


def greet(request, context):
    context.send_initial_metadata([("said-first", "head")])
    context.set_trailing_metadata([("said-last", "trailer"), ("bytes-bin", bytes(range(256)))])
    return request[::-1]


def refuse(request, context):
    context.set_trailing_metadata([("why", "asked for")])
    context.abort(grpc.StatusCode.NOT_FOUND, "nothing of that name: ä%")


def count(request, context):
    for n in range(int(request)):
        yield b"%d" % n


def add(requests, context):
    return b"%d" % sum(len(request) for request in requests)


def echo(requests, context):
    for request in requests:
        yield request


gone = threading.Event()


def wait(request, context):
    context.add_callback(gone.set)
    while context.is_active():
        yield b"still"
        time.sleep(0.05)


def was_left(request, context):
    return b"yes" if gone.wait(5) else b"no"


METHODS = {
    "Greet": grpc.unary_unary_rpc_method_handler(greet),
    "Refuse": grpc.unary_unary_rpc_method_handler(refuse),
    "Count": grpc.unary_stream_rpc_method_handler(count),
    "Add": grpc.stream_unary_rpc_method_handler(add),
    "Echo": grpc.stream_stream_rpc_method_handler(echo),
    "Wait": grpc.unary_stream_rpc_method_handler(wait),
    "WasLeft": grpc.unary_unary_rpc_method_handler(was_left),
}


def serve():
    server = grpc.server(futures.ThreadPoolExecutor(32))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, METHODS)])
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()
    server.stop(0)


class Asking:
    def __init__(self, channel):
        def of(kind):
            return lambda name: getattr(channel, kind)(f"/{SERVICE}/{name}")

        self.one, self.many = of("unary_unary"), of("unary_stream")
        self.sum, self.both = of("stream_unary"), of("stream_stream")

    def unary(self):
        answer, call = self.one("Greet").with_call(b"abc", timeout=10)
        first, last = dict(call.initial_metadata()), dict(call.trailing_metadata())
        assert answer == b"cba" and call.code() == grpc.StatusCode.OK, answer
        assert first["said-first"] == "head", first
        assert last["said-last"] == "trailer" and last["bytes-bin"] == bytes(range(256)), last

    def large(self):
        message = bytes(range(256)) * (LARGE // 256)
        assert self.one("Greet")(message, timeout=20) == message[::-1]

    def error(self):
        try:
            self.one("Refuse")(b"", timeout=10)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.NOT_FOUND, error
            assert error.details() == "nothing of that name: ä%", error
            assert dict(error.trailing_metadata())["why"] == "asked for", error
        else:
            raise AssertionError("no error")

    def unknown(self):
        try:
            self.one("Nothing")(b"", timeout=10)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error
        else:
            raise AssertionError("no error")

    def from_server(self):
        assert list(self.many("Count")(b"2000", timeout=20)) == [b"%d" % n for n in range(2000)]

    def from_client(self):
        assert self.sum("Add")((b"x" * 1000 for _ in range(2000)), timeout=20) == b"2000000"

    def both_at_once(self):
        """Each message waits for the answer to the one before."""
        answered = threading.Semaphore(1)

        def messages():
            for n in range(200):
                assert answered.acquire(timeout=10)
                yield b"%d" % n

        got = []
        for answer in self.both("Echo")(messages(), timeout=30):
            got.append(answer)
            answered.release()
        assert got == [b"%d" % n for n in range(200)], got

    def deadline(self):
        try:
            list(self.many("Wait")(b"", timeout=0.5))
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error
        else:
            raise AssertionError("no error")

    def cancelled(self):
        call = self.many("Wait")(b"", timeout=20)
        assert next(call) == b"still"
        call.cancel()
        assert self.one("WasLeft")(b"", timeout=10) == b"yes"

    def many_at_once(self):
        calls = [self.one("Greet").future(b"%d" % n, timeout=20) for n in range(500)]
        assert [call.result() for call in calls] == [(b"%d" % n)[::-1] for n in range(500)]

    CHECKS = [
        ("a message, its first and its last metadata", unary),
        ("messages of 3 MiB", large),
        ("an error's status, text and metadata", error),
        ("a method that is not there", unknown),
        ("2,000 messages from the server", from_server),
        ("2,000 messages from the client", from_client),
        ("200 messages each way, each after the answer to the one before", both_at_once),
        ("500 calls at once", many_at_once),
        ("a deadline", deadline),
        ("a call that its client leaves, which the server sees", cancelled),
    ]


def ask(address, certificate=None):
    options = [("grpc.max_receive_message_length", 8 << 20), ("grpc.enable_http_proxy", 0)]
    if certificate:
        with open(certificate, "rb") as file:
            credentials = grpc.ssl_channel_credentials(file.read())
        channel = grpc.secure_channel(address, credentials, options)
    else:
        channel = grpc.insecure_channel(address, options)
    failed = 0
    with channel:
        for name, check in Asking.CHECKS:
            try:
                check(Asking(channel))
                print(f"holds: {name}", flush=True)
            except (AssertionError, grpc.RpcError, KeyError) as error:
                failed += 1
                print(f"FAILS: {name}: {type(error).__name__} {error}".replace("\n", " "), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            serve()
        case ["ask", address, *certificate]:
            ask(address, *certificate)
        case _:
            sys.exit(__doc__)
