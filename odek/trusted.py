"""Which files of a working directory the host trusts later: git hooks, editor tasks, odek's own settings. Pure.

The sandbox may write the working directory, and a hook that it plants there runs on the host at the
next `git commit`. Two things are done about it, and both go by this list: writing such a file needs
the operator's word (D-6, danger/paths.py), and a session ends by naming those that changed (B55,
changes.py). All names are in lower case and stand for every spelling: some file systems know one only.
"""

from __future__ import annotations

OWN = frozenset(("odek.json", "dockerfile.odek", "agents.md"))
"""what odek itself reads in a working directory"""
FILES = OWN | frozenset(
    (
        # shells, version managers, package managers and debuggers that look into the folder they are started in
        ".envrc", "mise.toml", ".mise.toml", ".tool-versions", ".npmrc", ".yarnrc", ".yarnrc.yml", ".bazelrc",
        ".gdbinit", ".lldbinit", ".exrc", ".nvimrc", ".nvim.lua", ".dir-locals.el", "sitecustomize.py",
        # git and its hooks
        ".gitattributes", ".gitmodules", ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml",
        # other agents
        "claude.md", "gemini.md", ".mcp.json",
        # what a server runs after a push
        ".gitlab-ci.yml", ".travis.yml", ".drone.yml", ".woodpecker.yml", "jenkinsfile", "azure-pipelines.yml",
        "bitbucket-pipelines.yml",
    )
)  # fmt: skip
"""wherever they stand"""
FOLDERS = frozenset(
    (
        ".vscode", ".idea", ".zed", ".devcontainer", ".github", ".gitlab", ".circleci", ".husky", ".githooks",
        ".cargo", ".mise", ".odek", ".claude", ".cursor",
    )
)  # fmt: skip
"""wherever they stand, every file in them counts"""

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
