"""For every test: nothing fails because the machine is slow, or because the tests run in the background."""

import signal
import threading

from hypothesis import HealthCheck, settings

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

if threading.current_thread() is threading.main_thread():
    # A shell without job control starts what is to run in the background with SIGINT ignored, and the programs that
    # tests start and interrupt would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
