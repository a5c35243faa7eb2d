/* The portable odek: a Python in one executable, and odek in a zip archive at the end of the same file.
 *
 * Nothing is unpacked and no library is looked for: the standard library is part of the program (frozen), and so are
 * its C modules. It starts as the launcher of the zip does (build/launcher.sh): isolated, in UTF-8 mode, without site.
 */
#include <Python.h>

#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "frozen.h"

/* odekboot.py finds in sys.argv what the launcher hands over: the file, no other Pythons to try, the arguments */
static const char START[] =
    "import sys,zipimport as z\n"
    "f=sys.executable\n"
    "try:z=z.zipimporter(f);c=z.get_data(f+'/odekboot.py')\n"
    "except(ImportError,OSError)as e:sys.exit(f'odek: error: this file is damaged, get it again: {e}')\n"
    "s={};exec(c,s);s['start'](z)";

/* `odek -I -S -c CODE`: odek starts itself as a Python for a search that may have to be killed */
static const char *const AS_PYTHON[] = {"-I", "-S", "-c"};

static int is_python(int argc, char **argv)
{
    if (argc < 5)
        return 0;
    for (int at = 0; at < 3; at++)
        if (strcmp(argv[at + 1], AS_PYTHON[at]) != 0)
            return 0;
    return 1;
}

/* Without /proc, the name that it was started by, which the kernel keeps. */
static int find_self(char *path)
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    const char *name;

    if (length > 0) {
        path[length] = '\0';
        if (access(path, R_OK) == 0)
            return 0;
    }
    name = (const char *)getauxval(AT_EXECFN);
    return name != NULL && realpath(name, path) != NULL ? 0 : -1;
}

/* What Python calls as setlocale (link.mk): odek speaks UTF-8 in a locale of bytes as well, and so must its line editor. */
char *__real_setlocale(int category, const char *locale);
char *__wrap_setlocale(int category, const char *locale);

char *__wrap_setlocale(int category, const char *locale)
{
    char *found = __real_setlocale(category, locale);
    char *better;

    if (found == NULL || locale == NULL || *locale != '\0' || category != LC_CTYPE || MB_CUR_MAX > 1)
        return found;
    better = __real_setlocale(category, "C.UTF-8");
    return better != NULL ? better : __real_setlocale(category, locale);
}

static void end(PyStatus status)
{
    if (PyStatus_Exception(status))
        Py_ExitStatusException(status);
}

static void set(PyConfig *config, wchar_t **field, const char *text)
{
    end(PyConfig_SetBytesString(config, field, text));
}

int main(int argc, char **argv)
{
    char path[PATH_MAX];
    char **arguments = calloc((size_t)argc + 2, sizeof *arguments);
    PyPreConfig before;
    PyConfig config;
    int plain = is_python(argc, argv);
    sigset_t interrupt, mask;

    /* a Ctrl-C that comes meanwhile ends it as it ends any program, without a traceback; odekboot.py goes on so */
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, &mask);
    if (arguments == NULL || find_self(path) != 0) {
        fprintf(stderr, "odek: error: its own file cannot be found: %s\n", strerror(errno));
        return 1;
    }
    PyPreConfig_InitIsolatedConfig(&before);
    before.utf8_mode = 1;
    before.configure_locale = 1; /* the line editor asks it what a character is */
    end(Py_PreInitialize(&before));

    PyImport_FrozenModules = odek_frozen;
    PyConfig_InitIsolatedConfig(&config);
    config.install_signal_handlers = 1;
    config.site_import = 0;
    config.write_bytecode = 0;
    config.pathconfig_warnings = 0;
    config.module_search_paths_set = 1; /* to nothing */
    set(&config, &config.program_name, path);
    set(&config, &config.executable, path);
    set(&config, &config.base_executable, path);
    set(&config, &config.prefix, "/");
    set(&config, &config.exec_prefix, "/");
    set(&config, &config.base_prefix, "/");
    set(&config, &config.base_exec_prefix, "/");
    config.parse_argv = plain;
    if (plain) {
        end(PyConfig_SetBytesArgv(&config, argc, argv));
    } else {
        arguments[0] = "-c";
        arguments[1] = path;
        arguments[2] = "";
        for (int at = 1; at < argc; at++)
            arguments[at + 2] = argv[at];
        end(PyConfig_SetBytesArgv(&config, argc < 1 ? 3 : argc + 2, arguments));
        set(&config, &config.run_command, START);
    }
    end(Py_InitializeFromConfig(&config));
    PyConfig_Clear(&config);
    free(arguments);
    if (!plain && PyOS_getsig(SIGINT) != SIG_IGN)
        PyOS_setsig(SIGINT, SIG_DFL);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    return Py_RunMain();
}
