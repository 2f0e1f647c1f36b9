import signal

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("fixed")

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # What a shell puts in the background is deaf to Ctrl-C, and so are its children: some tests send it to them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
