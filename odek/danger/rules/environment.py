"""Variables whose value is run or decides what is run. An assignment of one is a command (F-88)."""

from __future__ import annotations

import re

from odek.danger.call import RuleContext
from odek.danger.risk import RiskClass
from odek.danger.shell.state import Values
from odek.patterns import pattern

_LOADS_CODE = frozenset(
    """
    LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH DYLD_FRAMEWORK_PATH PATH
    BASH_ENV ENV SHELLOPTS BASHOPTS PS4 CDPATH PROMPT_COMMAND IFS GLOBIGNORE FPATH ZDOTDIR PYTHONSTARTUP
    PYTHONPATH PYTHONHOME PYTHONINSPECT PYTHONUSERBASE PYTHONBREAKPOINT NODE_OPTIONS NODE_PATH PERL5OPT PERL5LIB
    PERL5DB PERLLIB RUBYOPT RUBYLIB GEM_HOME GEM_PATH BUNDLE_GEMFILE LUA_PATH LUA_CPATH LUA_INIT
    JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH MAVEN_OPTS GRADLE_OPTS GIT_SSH GIT_SSH_COMMAND
    GIT_EXTERNAL_DIFF GIT_PAGER GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_ASKPASS GIT_PROXY_COMMAND GIT_EXEC_PATH
    GIT_TEMPLATE_DIR GIT_CONFIG GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS
    GIT_DIR GIT_WORK_TREE SSH_ASKPASS SUDO_ASKPASS PAGER MANPAGER LESSOPEN LESSCLOSE LESS EDITOR VISUAL BROWSER
    SHELL MAKEFLAGS MAKEFILES GNUMAKEFLAGS CC CXX LD AR RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTFLAGS
    CARGO_BUILD_RUSTC_WRAPPER GOFLAGS GOTOOLCHAIN GCONV_PATH NLSPATH LOCPATH TERMINFO TERMCAP HOSTALIASES
    RSYNC_RSH CVS_RSH SVN_SSH HGMERGE TAR_OPTIONS GREP_OPTIONS RIPGREP_CONFIG_PATH FZF_DEFAULT_COMMAND
    FZF_DEFAULT_OPTS MYSQL_PS1 PSQL_EDITOR PSQL_PAGER PSQLRC PAGER_COMMAND DOCKER_HOST DOCKER_CONFIG KUBECONFIG
    AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE HOME XDG_CONFIG_HOME NPM_CONFIG_USERCONFIG PIP_CONFIG_FILE
    OPENSSL_CONF OPENSSL_ENGINES SSLKEYLOGFILE WGETRC CURL_HOME INPUTRC VIMINIT EXINIT MYVIMRC EMACSLOADPATH
    """.split()
)
_COMPILERS = frozenset(
    ("CC", "CXX", "LD", "AR", "RUSTFLAGS", "GOFLAGS", "MAKEFLAGS", "MAVEN_OPTS", "GRADLE_OPTS", "LESS", "SHELL")
)
"""ordinary in front of a build; they matter only by naming a program, and builds run code anyway"""
_PREFIXES = ("LD_", "DYLD_", "GIT_CONFIG_KEY", "GIT_CONFIG_VALUE", "BASH_FUNC_", "npm_config_script")
_PLAIN_TOOL = pattern(r"(?:/usr/bin/)?(?:cat|less|more|true|false|:|vi|vim|nano|emacs|code --wait)?")
_SHOWING = frozenset(
    """
    PAGER GIT_PAGER MANPAGER EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR
    """.split()
)


def check_assignment(context: RuleContext, name: str, values: Values, *, program: str) -> None:
    """Check `name=value`, in front of `program`, or ("") permanently.

    `IFS= read` is how one reads a line, and `PAGER=cat` how one does without a pager.
    """
    context.assign(name)
    if name not in _LOADS_CODE and not name.startswith(_PREFIXES):
        return
    if name == "IFS" and program == "read":
        return
    if name in _SHOWING and all(_PLAIN_TOOL.fullmatch(value) for value in values):
        return
    if name in _COMPILERS and all(re.fullmatch(r"[\w.+=,/-]*", value) and "/" not in value for value in values):
        return
    context.add(RiskClass.CODE_EXECUTION, "environment", f"sets {name}, which decides what programs run")
