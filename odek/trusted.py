"""Which files of a working directory the host trusts later: git hooks, editor tasks, odek's own settings. Pure.

The sandbox may write the working directory, and a hook that it plants there runs on the host at the
next `git commit`. Two things are done about it, and both go by this list: writing such a file needs
the operator's word (D-6, danger/paths.py), and a session ends by naming those that changed (B55,
changes.py). All names are in lower case and stand for every spelling: some file systems know one only.

What is on it: what a program runs, loads or obeys merely because it is started in the folder, or the
folder is opened with it: shells, version control, editors, debuggers, interpreters, package managers,
other agents, and a server after a push. What is not: what one asks for by name, as a build, a test or
a linter is (Makefile, package.json, conftest.py); a list of all that would name every piece of work.
"""

from __future__ import annotations

OWN = frozenset(("odek.json", "dockerfile.odek", "agents.md"))
"""what odek itself reads in a working directory"""
FILES = OWN | frozenset(
    (
        # shells and version managers that look into the folder they are started in
        ".envrc", ".autoenv", ".autoenv.zsh", ".autoenv_leave.zsh", "mise.toml", ".mise.toml", "mise.local.toml",
        ".mise.local.toml", ".rtx.toml", ".tool-versions",
        # package managers: where programs come from, and code that they load themselves
        ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pnpmfile.mjs", "bunfig.toml", ".bazelrc", ".condarc",
        # interpreters and debuggers
        "sitecustomize.py", "usercustomize.py", ".rprofile", ".renviron", ".irbrc", ".pryrc", ".ghci", ".iex.exs",
        ".octaverc", ".ocamlinit", ".gdbinit", ".gdbearlyinit", ".lldbinit", ".radare2rc",
        # editors
        ".exrc", ".vimrc", ".gvimrc", ".lvimrc", ".nvimrc", ".nvim.lua", ".dir-locals.el", ".dir-locals-2.el",
        ".devcontainer.json",
        # version control and its hooks
        ".gitattributes", ".gitmodules", ".lfsconfig", ".hgsub", ".arcconfig", ".pre-commit-config.yaml",
        ".pre-commit-config.yml", ".overcommit.yml", "lefthook.yml", ".lefthook.yml", "husky.config.js",
        # other agents
        "agent.md", "claude.md", "claude.local.md", "gemini.md", "codex.md", "qwen.md", ".mcp.json", "mcp.json",
        ".cursorrules", ".windsurfrules", ".clinerules", ".roorules", ".goosehints", ".rules", "opencode.json",
        "opencode.jsonc", "crush.json", ".crush.json",
        # what a server runs after a push
        ".gitlab-ci.yml", ".travis.yml", ".drone.yml", ".woodpecker.yml", ".cirrus.yml", ".appveyor.yml",
        "appveyor.yml", "jenkinsfile", "azure-pipelines.yml", "bitbucket-pipelines.yml", "cloudbuild.yaml",
    )
)  # fmt: skip
"""wherever they stand"""
BEGINNINGS = ("lefthook.", "lefthook-local.", ".lefthook", ".aider", ".huskyrc", ".simple-git-hooks.", "jenkinsfile.")
ENDINGS = (".code-workspace", ".sublime-project")
"""the same, for names of which this is a part"""
FOLDERS = frozenset(
    (
        # editors
        ".vscode", ".idea", ".run", ".zed", ".fleet", ".vs", ".nova", ".theia", ".vim", ".nvim", ".helix",
        ".devcontainer",
        # version control, its hooks, and servers
        ".husky", ".githooks", ".git-hooks", ".lefthook", ".github", ".gitlab", ".gitea", ".forgejo", ".circleci",
        ".buildkite", ".woodpecker", ".semaphore", ".teamcity", ".azure-pipelines",
        # package and version managers
        ".cargo", ".mise", ".mvn",
        # other agents
        ".odek", ".claude", ".cursor", ".gemini", ".codex", ".qwen", ".continue", ".windsurf", ".opencode", ".crush",
        ".cline", ".clinerules", ".roo", ".kilocode", ".kiro", ".amazonq", ".goose", ".augment", ".junie", ".trae",
        ".agent", ".agents", ".openhands", ".factory", ".amp", ".copilot", ".codeium", ".tabnine",
    )
)  # fmt: skip
"""wherever they stand, every file in them counts"""
TAILS = (
    ".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath", ".jj/repo/config.toml", ".jj/workspace-config.toml",
    ".yarn/releases", ".yarn/plugins", ".bundle/config", ".bundle/plugin", ".config/mise", ".config/mise.toml",
)  # fmt: skip
"""ends of paths that count, files or folders; what else is in these folders is daily work"""
HOLDERS = frozenset(tail.partition("/")[0] for tail in TAILS)
"""folders that hold such a thing: they count when they are put there as a whole"""

GIT = ".git"
"""git's own folder, or the file that says where that is"""
GIT_DATA = frozenset(
    ("objects", "refs", "logs", "index", "commit_editmsg", "merge_msg", "orig_head", "fetch_head")
)  # fmt: skip
"""what git keeps in its folder and neither runs nor obeys"""
GIT_FILES = frozenset(("config", "config.worktree", "commondir"))
"""what git obeys in its folder; daily work leaves them alone"""
GIT_FOLDERS = frozenset(("hooks", "info"))
"""the same, every file in them"""


def is_repository(names: frozenset[str]) -> bool:
    """Return whether git would take the folder that holds `names`, in lower case, for one of its own.

    It needs no special name for that: whoever calls git in such a folder runs what its `config` names.
    """
    return "head" in names and ("commondir" in names or {"objects", "refs"} <= names)


def may_count(name: str) -> bool:
    """Return whether `name`, in lower case, can mean anything here; quick, for the many that cannot."""
    return name in _ANY or name.startswith(BEGINNINGS) or name.endswith(ENDINGS)


def is_named(name: str) -> bool:
    """Return whether a file or folder called `name`, in lower case, counts wherever it stands; .git is not asked."""
    return name in _NAMES or name.startswith(BEGINNINGS) or name.endswith(ENDINGS)


def is_folder(name: str) -> bool:
    """Return whether every file in a folder called `name`, in lower case, counts."""
    return name in FOLDERS or name.startswith(BEGINNINGS)


def is_tail(path: str) -> bool:
    """Return whether the end of `path`, in lower case, is one of TAILS."""
    name = path[path.rfind("/") + 1 :]
    return name in _LAST and any(path == tail or path.endswith(f"/{tail}") for tail in TAILS)


_NAMES = FILES | FOLDERS
_LAST = frozenset(tail.rpartition("/")[2] for tail in TAILS)
_ANY = _NAMES | HOLDERS | _LAST | GIT_FILES | GIT_FOLDERS | {GIT}
