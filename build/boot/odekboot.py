"""First code of the one-file odek.

Started as `python -X utf8 -I -S -c '…start(…)' FILE OTHERS ARGUMENT…`: FILE is the absolute
path of the one-file odek, OTHERS the further interpreters to try, separated by colons.

Valid in every Python 3, so that an old one can say that it is too old. It is compiled at every
start: what it need not hold itself is elsewhere.
"""

import sys


def start(archive):
    if sys.version_info < (3, 10):
        sys.path.insert(0, sys.argv[1])
        import odekagain

        odekagain.hand_on()
    import _signal

    # a Ctrl-C while modules are being imported ends odek as it ends any program, without a traceback
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    file = sys.argv[1]
    del sys.argv[2], sys.argv[0]
    import marshal
    import posix
    import zlib

    modules = {}
    try:
        try:
            magic = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER.hex()
            if b"ODEK_DEBUG" in posix.environ:  # only the sources give a traceback with lines
                raise OSError
            code, modules = marshal.loads(zlib.decompress(archive.get_data(file + "/compiled/" + magic), -15))
        except OSError:  # a Python that nothing was compiled for: the sources in the archive serve
            code, magic = zlib.decompress(archive.get_data(file + "/odekload.py"), -15), ""
    except (zlib.error, EOFError, OSError, TypeError, ValueError):
        sys.exit("odek: error: this copy of odek is damaged: " + file + "\nodek: hint: get it again")
    scope = {"__name__": "odekload"}
    exec(code, scope)
    scope["install"](file, archive, modules, magic)
    from odek.cli.main import start

    start(sys.argv[1:])
