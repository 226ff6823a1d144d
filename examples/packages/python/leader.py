"""leader.h from Python, through libleader.so (`make lib`) and ctypes.

    with Leader("file:///var/lib/app/job.lease", "node-a") as me:
        while True:
            me.tick()
            if me.is_leader():
                work(me.token())
            me.sleep(1000)

As a program: python3 leader.py LIBRARY STORE NAME [SECONDS] prints what happens.
"""
import ctypes
import os
import sys
import time

OK = 0


class Hooks(ctypes.Structure):
    """leader_hooks of leader_lib.h. What this class does not know of, the library leaves alone: see size."""
    STARTED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64)
    STOPPED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int)
    NEW = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
    LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
    _fields_ = [("size", ctypes.c_size_t), ("user", ctypes.c_void_p), ("on_started_leading", STARTED), ("on_stopped_leading", STOPPED),
                ("on_new_leader", NEW), ("on_log", LOG)]


def load(path):
    lib = ctypes.CDLL(path, use_errno=True)
    leader, text = ctypes.c_void_p, ctypes.c_char_p
    for name, result, *arguments in [
        ("leader_open", leader, text, text, ctypes.c_int64, ctypes.POINTER(Hooks), text, ctypes.c_size_t),
        ("leader_free", ctypes.c_int, leader, ctypes.c_int64),
        ("leader_tick", ctypes.c_int, leader),
        ("leader_sleep", None, leader, ctypes.c_int),
        ("leader_is_leader", ctypes.c_bool, leader),
        ("leader_token", ctypes.c_uint64, leader),
        ("leader_remaining_ms", ctypes.c_int64, leader),
        ("leader_resign", None, leader, ctypes.c_int64),
        ("leader_stop", None, leader),
        ("leader_result_text", text, ctypes.c_int),
        ("leader_version", text),
    ]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


class Leader:
    def __init__(self, store, identity, lease_ms=0, started=None, stopped=None, new_leader=None, log=None, library="libleader.so.1"):
        self.lib = load(library)
        error = ctypes.create_string_buffer(512)
        self.hooks = Hooks(ctypes.sizeof(Hooks), None,          # kept: the library calls them as long as it lives
                           Hooks.STARTED(lambda _, token: started and started(token)),
                           Hooks.STOPPED(lambda _, token, why: stopped and stopped(token, self.lib.leader_result_text(why).decode())),
                           Hooks.NEW(lambda _, name: new_leader and new_leader(name.decode())),
                           Hooks.LOG(lambda _, level, words: log and log(level, words.decode(errors="replace"))))
        self.me = self.lib.leader_open(store.encode(), identity.encode(), lease_ms, ctypes.byref(self.hooks), error, len(error))
        if not self.me:
            raise ValueError(error.value.decode(errors="replace"))

    def tick(self):
        return self.lib.leader_tick(self.me)

    def sleep(self, max_ms):
        self.lib.leader_sleep(self.me, max_ms)

    def is_leader(self):
        return self.lib.leader_is_leader(self.me)

    def token(self):
        return self.lib.leader_token(self.me)

    def remaining_ms(self):
        return self.lib.leader_remaining_ms(self.me)

    def close(self, timeout_ms=1000):
        me, self.me = self.me, None
        return self.lib.leader_free(me, timeout_ms)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def main(library, store, identity, seconds="60"):
    end = time.monotonic() + float(seconds)
    with Leader(store, identity, 3000, started=lambda token: print("leading with token", token, flush=True),
                stopped=lambda token, why: print("over:", why, flush=True), library=os.path.abspath(library)) as me:
        while time.monotonic() < end:
            me.tick()
            me.sleep(100)


if __name__ == "__main__":
    main(*sys.argv[1:])
