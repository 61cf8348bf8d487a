"""Stops one thread of a process, as a device driver that hangs would: stuck.py PID THREAD. Says `stopped`, and lets it go on at the
end of its input."""

import ctypes
import os
import pathlib
import sys

SEIZE, INTERRUPT = 0x4206, 0x4207


def main() -> None:
    process, name = sys.argv[1:]
    tasks = pathlib.Path("/proc", process, "task").iterdir()
    (thread,) = [int(t.name) for t in tasks if (t / "comm").read_text().strip() == name]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    for request in (SEIZE, INTERRUPT):
        if libc.ptrace(request, thread, None, None) != 0:
            sys.exit(f"ptrace: {os.strerror(ctypes.get_errno())}")
    os.waitpid(thread, 0x40000000)  # __WALL: until it has stopped
    print("stopped", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
