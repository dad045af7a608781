"""A process whose output is read as it comes: one that wrote into a full pipe would stand still."""
import os
import subprocess
import threading
import time


class Output:
    """All that comes from a pipe. Lines are read as from a file; a read waits for them."""

    def __init__(self, pipe):
        self.bytes, self.ended, self.came = bytearray(), False, threading.Condition()
        self.thread = threading.Thread(target=self._collect, args=(pipe,), daemon=True)
        self.thread.start()

    def _collect(self, pipe):
        with pipe:
            for chunk in iter(lambda: os.read(pipe.fileno(), 1 << 16), b""):
                with self.came:
                    self.bytes += chunk
                    self.came.notify_all()
        with self.came:
            self.ended = True
            self.came.notify_all()

    def _take(self, size):
        taken = bytes(self.bytes[:size])
        del self.bytes[:size]
        return taken.decode()

    def readline(self):
        with self.came:
            self.came.wait_for(lambda: self.ended or b"\n" in self.bytes)
            end = self.bytes.find(b"\n")
            return self._take(len(self.bytes) if end < 0 else end + 1)

    def skip(self):
        """What has come so far is not read."""
        with self.came:
            self.bytes.clear()

    def read(self, timeout=None):
        """To the end; raises TimeoutError if that does not come in time."""
        self.thread.join(timeout)
        if self.thread.is_alive():
            raise TimeoutError
        return self._take(len(self.bytes))


class Task(subprocess.Popen):
    def __init__(self, command, **options):
        super().__init__(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        self.stdout, self.stderr = Output(self.stdout), Output(self.stderr)

    def communicate(self, input=None, timeout=None):
        deadline = None if timeout is None else time.monotonic() + timeout

        def left():
            return None if deadline is None else max(0, deadline - time.monotonic())
        self.wait(timeout)
        try:
            return self.stdout.read(left()), self.stderr.read(left())
        except TimeoutError:
            raise subprocess.TimeoutExpired(self.args, timeout) from None
