"""python -m hare_worker: the process that an agent starts for a device. Users do not start it."""

import argparse
import os
import socket
import sys

from . import serve, wire


def main():
    parser = argparse.ArgumentParser(prog="hare_worker", description=__doc__)
    parser.add_argument("--socket", required=True, help="the Unix socket of the agent")
    parser.add_argument("--epoch", type=int, required=True, help="the number of this start")
    parser.add_argument("--device", default="auto",
                        help="the device of PyTorch; auto is CUDA where PyTorch finds it")
    arguments = parser.parse_args()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(arguments.socket)
        serve.Worker(wire.Connection(sock), arguments.epoch, arguments.device).run()
    except (wire.ProtocolError, OSError) as e:
        print(f"hare_worker: {e}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(1)
    # Threads of libraries are not waited for.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
