"""Programs with subcommands: version control, package managers, languages.

The bare program stands for every subcommand that is not listed.
"""

from __future__ import annotations

from odek.danger.rules.table import EXEC, INSTALL, LOCAL, NET, SAFE, SYSTEM, CommandRow

GIT: tuple[CommandRow, ...] = (
    (EXEC, "is a git command that no rule knows; it may be an alias", "git"),
    (SAFE, "only reads the repository", """
        git =, dotnet =, npm =, cargo =, go =, pip =, uv =, poetry =, git status, git log, git show, git diff,
        git blame, git annotate, git shortlog, git describe, git rev-parse, git rev-list, git ls-files, git ls-tree,
        git cat-file, git diff-tree, git diff-index, git diff-files, git for-each-ref, git show-ref,
        git show-branch, git merge-base, git name-rev, git grep, git reflog, git reflog show, git branch, git tag,
        git remote, git remote show -n, git remote get-url, git stash list, git stash show, git worktree list,
        git count-objects, git fsck, git version, git help, git whatchanged, git range-diff, git cherry,
        git check-ignore, git check-attr, git check-ref-format, git var, git verify-commit, git verify-tag,
        git config --get, git submodule, git submodule status, git submodule summary, git bisect log,
        git bisect view, git notes, git notes list, git notes show, git lfs, git lfs ls-files, git lfs status,
        git lfs env, git lfs version, git sparse-checkout list, git symbolic-ref, git bundle verify,
        git bundle list-heads, git diagnose, git column, git stripspace, git interpret-trailers, git patch-id,
        git hash-object, git get-tar-commit-id, git rerere, git rerere status
        """),
    (LOCAL, "changes the repository", """
        git add, git stage, git commit, git mv, git rm, git switch, git checkout, git init, git merge, git rebase,
        git cherry-pick, git revert, git am, git apply, git stash, git stash push, git stash save, git stash pop,
        git stash apply, git stash create, git stash store, git stash branch, git reset, git restore,
        git remote add, git remote rename, git remote remove, git remote rm, git remote set-url,
        git remote set-head, git remote set-branches, git worktree, git worktree add, git worktree move,
        git worktree lock, git worktree unlock, git worktree prune, git worktree repair, git notes add,
        git notes append, git notes edit, git notes copy, git bisect, git bisect start, git bisect good,
        git bisect bad, git bisect skip, git bisect reset, git archive, git bundle, git bundle create,
        git format-patch, git gc, git repack, git pack-refs, git commit-graph, git maintenance, git pack-objects,
        git index-pack, git unpack-objects, git update-index, git update-ref, git write-tree, git read-tree,
        git commit-tree, git mktree, git mktag, git sparse-checkout, git sparse-checkout set,
        git sparse-checkout init, git sparse-checkout add, git rerere forget, git submodule init,
        git submodule deinit, git submodule absorbgitdirs, git submodule set-branch, git replace, git prune-packed,
        git lfs track, git lfs untrack, git lfs migrate, git flow, git subtree split, git multi-pack-index,
        git merge-file, git clean
        """),
    (NET, "talks to a remote repository", """
        git clone, git fetch, git pull, git push, git ls-remote, git remote update, git remote show,
        git remote prune, git submodule update, git submodule add, git submodule sync, git fetch-pack,
        git send-pack, git request-pull, git send-email, git lfs pull, git lfs fetch, git lfs push, git subtree,
        git svn, git p4, git imap-send, git scalar, git annex, git http-fetch, git http-push, git backfill
        """),
    (SYSTEM, "loses work or history that cannot be had back", """
        git stash drop, git stash clear, git reflog expire, git reflog delete, git filter-branch, git filter-repo,
        git prune, git checkout-index, git worktree remove, git notes remove, git notes prune, git rerere clear,
        git rerere gc, git lfs prune
        """),
    (EXEC, "runs commands, or sets what git will run", """
        git config, git submodule foreach, git bisect run, git difftool, git mergetool, git gui, gitk, tig, lazygit,
        gitui, git citool, git instaweb, git daemon, git http-backend, git shell, git credential,
        git credential-store, git credential-cache, git for-each-repo, git lfs install,
        git web--browse, git hook, git maintenance start, git maintenance register, git upload-pack,
        git receive-pack, git cvsserver
        """),
    (SYSTEM, "hands out a stored password", "git credential fill"),
)  # fmt: skip

PACKAGES: tuple[CommandRow, ...] = (
    (EXEC, "is a subcommand that runs code, or that no rule knows", """
        npm, pnpm, yarn, bun, npx, pnpx, bunx, corepack, volta, fnm, nvm, n, pip, pipx, uv, uvx, poetry, pdm, hatch,
        rye, pipenv, flit, conda, mamba, micromamba, pixi, gem, bundle, bundler, rbenv, rvm, pyenv, asdf, mise, rtx,
        direnv, cargo, rustup, go, composer, dotnet, nuget, cabal, luarocks, opam, raku, zef, dart, flutter, pub,
        swift, vcpkg, conan, spack, build, tsx, mix, hex, nix, nix-build, nix-shell, nix-instantiate, home-manager,
        devbox, devenv, guix, brew-bundle, lerna, cmake, zig, deno, helmfile, sdk, jbang, mvn
        """),
    (SAFE, "only reads", """
        npm ls, npm list, npm root, npm prefix, npm bin, npm config get, npm config list, npm explain, npm why,
        npm help, npm query, npm fund, npm pkg get, npm version --json, pnpm ls, pnpm list, pnpm why, pnpm root,
        pnpm bin, yarn list, yarn why, yarn bin, yarn config get, yarn config list, bun pm, bun pm ls, pip list,
        pip show, pip freeze, pip check, pip help, pip config list, pip cache dir, pip debug, pip inspect,
        pipx list, uv pip list, uv pip show, uv pip freeze, uv pip check, uv pip tree, uv tree, uv version,
        uv python list, uv python find, uv cache dir, poetry show, poetry check, poetry env info, poetry env list,
        poetry config --list, poetry version, poetry about, pdm list, pdm info, hatch env show, hatch status,
        pipenv graph, pipenv --venv, conda list, conda info, conda env list, mamba list, gem list, gem env,
        gem environment, gem contents, gem which, bundle list, bundle show, bundle info, bundle check,
        bundle platform, cargo tree, cargo metadata, cargo version, cargo locate-project, cargo pkgid, cargo help,
        cargo --list, cargo read-manifest, rustup show, rustup toolchain list, rustup target list, rustup which,
        rustup component list, go env, go version, go list, go doc, go help, go mod graph, go mod why,
        go mod verify, composer show, composer validate, composer licenses, composer depends, composer why,
        composer about, dotnet --info, dotnet --list-sdks, dotnet --list-runtimes, dotnet list, dotnet help,
        nuget list, pyenv versions, pyenv version, pyenv which, pyenv root, rbenv versions, rbenv version,
        rbenv which, nvm ls, nvm list, nvm current, nvm which, asdf list, asdf current, asdf which, mise ls,
        mise list, mise current, mise which, mise doctor, opam list, opam show, luarocks list, dart info,
        flutter doctor, flutter devices, swift --version, nix path-info, zig env, zig version, mix help,
        twine check, volta list, corepack --version
        """),
    (LOCAL, "changes files of the project", """
        npm init, npm pkg, npm pkg set, npm pkg delete, npm version, npm dedupe, npm prune, npm uninstall,
        npm remove, npm rm, npm un, npm pack, npm shrinkwrap, npm cache clean, npm cache verify, pnpm init,
        pnpm remove, pnpm prune, pnpm store prune, yarn remove, yarn init, yarn cache clean, bun remove, bun init,
        pip uninstall, pip cache, pip cache purge, uv init, uv remove, uv venv, uv cache, uv cache clean,
        uv pip uninstall, uv export, uv format, poetry init, poetry remove, poetry config, poetry cache, poetry new,
        poetry env remove, poetry export, pdm init, pdm remove, hatch new, hatch version, hatch env create,
        hatch clean, pipenv --rm, pipenv uninstall, conda remove, conda clean, gem uninstall, gem cleanup,
        gem unpack, bundle init, bundle clean, bundle config, bundle cache, cargo new, cargo init, cargo clean,
        cargo fmt, cargo remove, cargo rm, cargo uninstall, cargo package, cargo generate-lockfile, cargo vendor,
        go mod init, go mod edit, go work, go work init, go work use, go clean, go fmt, go fix, composer init,
        composer remove, composer config, composer dump-autoload, composer dumpautoload, composer clear-cache,
        dotnet new, dotnet sln, dotnet add reference, dotnet clean, dotnet remove, dotnet format, virtualenv,
        rustup default, rustup override, pyenv local, pyenv global, rbenv local, nvm use, nvm alias, asdf local,
        mise use, deno fmt, zig fmt, mix format, dart format, flutter clean, flutter create, dart create, flit init,
        rye init, swift package init, cabal init, stack new, dune clean, deno init, nix fmt, nix flake init,
        volta pin, zig init, mix new
        """),
    (INSTALL, "installs packages", """
        yarn =, bundle =, npm install, npm i, npm in, npm ci, npm add, npm isntall, npm clean-install,
        npm install-clean, npm update, npm up, npm upgrade, npm link, npm rebuild, npm install-test, npm it,
        npm audit fix, pnpm install, pnpm i, pnpm add, pnpm update, pnpm up, pnpm fetch, pnpm rebuild, pnpm import,
        pnpm link, pnpm env, yarn install, yarn add, yarn upgrade, yarn up, yarn global, yarn global add, yarn link,
        yarn set, yarn set version, yarn dedupe, yarn import, bun install, bun i, bun add, bun update, bun upgrade,
        bun link, corepack enable, corepack prepare, corepack use, corepack install, pip install, pip download,
        pip wheel, pipx install, pipx upgrade, pipx inject, pipx upgrade-all, pipx ensurepath, uv add, uv sync,
        uv lock, uv pip, uv pip install, uv pip sync, uv pip compile, uv python, uv python install, uv tool install,
        uv tool upgrade, uv self, poetry install, poetry add, poetry lock, poetry update, poetry self, poetry sync,
        pdm install, pdm add, pdm sync, pdm lock, pdm update, rye sync, rye add, rye lock, pipenv install,
        pipenv sync, pipenv lock, pipenv update, pip-compile, pip-sync, flit install, conda install, conda create,
        conda update, conda env, conda env create, conda env update, mamba install, mamba create, mamba env create,
        mamba update, micromamba install, micromamba create, pixi install, pixi add, gem install, gem update,
        gem fetch, bundle, bundle install, bundle update, bundle add, bundle lock, bundle outdated, rbenv install,
        pyenv install, rvm install, nvm install, fnm install, fnm use, n install, volta install, asdf install,
        asdf plugin, asdf plugin add, mise install, mise i, cargo install, cargo add, cargo update, cargo fetch,
        cargo binstall, rustup update, rustup component, rustup component add, rustup target, rustup target add,
        rustup toolchain, rustup toolchain install, rustup install, go get, go install, go mod, go mod download,
        go mod tidy, go mod vendor, go work sync, composer install, composer require, composer update,
        composer create-project, composer global, composer i, composer u, dotnet restore, dotnet add,
        dotnet add package, dotnet tool, dotnet tool install, dotnet tool restore, dotnet workload, nuget install,
        nuget restore, cpan, cpanm, luarocks install, opam install, opam update, opam upgrade, opam init,
        opam switch, cabal install, cabal update, stack setup, stack update, easy_install, apk add, apk upgrade,
        apk update, apk fix, mix deps.get, mix deps.update, mix local.hex, mix local.rebar, mix archive.install,
        rebar3 get-deps, dart pub get, dart pub add, dart pub upgrade, flutter pub get, flutter pub add,
        flutter pub upgrade, flutter upgrade, pub get, pod install, pod update, carthage update, carthage bootstrap,
        swift package resolve, swift package update, vcpkg install, conan install, spack install, nimble install,
        shards install, dub fetch, deno install, deno add, deno cache, nix-env, nix profile, nix profile install,
        nix flake update, devbox add, guix install, guix pull, helm-plugin, ansible-galaxy, tlmgr, krew,
        sdk install, playwright install, npm exec playwright install, lein deps, clj -P, elm install, bower,
        bower install, jspm, tsd, typings, xcodes, stack install, zef install, gh extension install, yarn,
        lerna bootstrap, buf mod update
        """),
    (NET, "talks to a package registry", """
        npm view, npm info, npm show, npm v, npm search, npm s, npm outdated, npm audit, npm ping, npm whoami,
        npm doctor, npm dist-tag, npm access, npm owner, npm team, npm org, npm login, npm logout, npm adduser,
        npm publish, npm unpublish, npm deprecate, npm star, pnpm view, pnpm info, pnpm outdated, pnpm audit,
        pnpm publish, yarn info, yarn outdated, yarn audit, yarn npm, yarn publish, yarn login, bun outdated,
        bun publish, pip search, pip index, uv publish, poetry publish, poetry search, pdm publish, hatch publish,
        flit publish, conda search, gem search, gem push, gem outdated, gem info, gem query, gem yank, gem signin,
        gem owner, bundle audit, cargo search, cargo publish, cargo login, cargo owner, cargo yank, cargo info,
        cargo outdated, cargo audit, cargo deny, rustup check, composer search, composer outdated, composer audit,
        dotnet nuget, dotnet nuget push, nuget push, nuget search, twine, twine upload, luarocks search,
        luarocks upload, opam search, apk search, apk fetch, dart pub publish, pod trunk, mix hex.publish,
        mix hex.outdated, safety, pip-audit, npm-check-updates, ncu, osv-scanner, dependency-check, cargo crev,
        renovate
        """),
    (SYSTEM, "changes the system's packages", "apk, apk del, apk cache"),
    (SAFE, "only reads", """
        apk info, apk list, apk version, apk policy, apk stats, dpkg-query, apt-cache, rpm-query, dpkg -l
        """),
    (EXEC, "runs or builds code of the project", """
        npm run, npm run-script, npm test, npm t, npm start, npm stop, npm restart, npm exec, npm x, npm create,
        pnpm run, pnpm test, pnpm start, pnpm exec, pnpm dlx, pnpm create, yarn run, yarn test,
        yarn start, yarn build, yarn exec, yarn dlx, yarn create, yarn workspace, yarn workspaces, bun run,
        bun test, bun x, bun create, bun build, uv run, uv tool, uv tool run, uv build, poetry run, poetry shell,
        poetry build, pdm run, pdm build, hatch run, hatch test, hatch build, hatch fmt, rye run, rye test,
        rye build, pipenv run, pipenv shell, pipx run, conda run, mamba run, pixi run, bundle exec, bundle open,
        gem build, gem exec, cargo build, cargo b, cargo run, cargo r, cargo test, cargo t, cargo check, cargo c,
        cargo clippy, cargo bench, cargo doc, cargo d, cargo rustc, cargo rustdoc, cargo fix, cargo miri,
        cargo nextest, cargo watch, cargo expand, cargo llvm-cov, cargo tarpaulin, go run, go tool, go generate,
        go test, go build, go vet, go bug, composer run, composer run-script, composer test, composer exec,
        dotnet build, dotnet run, dotnet test, dotnet publish, dotnet pack, dotnet watch, dotnet ef, dotnet msbuild,
        dotnet vstest, dotnet fsi, nix run, nix develop, nix build, nix shell, nix eval, mise run, mise exec,
        mise x, swift build, swift test, swift run, dart run, dart test, dart compile, dart analyze, flutter test,
        flutter run, flutter build, flutter analyze, deno run, deno test, deno task, deno lint, deno check,
        deno bench, deno compile, deno eval, direnv allow, direnv exec, python-build, stack build, stack test,
        cabal build, cabal test, cabal run, dune build, dune test, dune exec, mix test, mix compile, mix run,
        mix phx.server, zig build, zig test, zig run
        """),
    (EXEC, "runs tools with the project's configuration", """
        ruff, black, isort, flake8, pylint, yapf, autopep8, bandit, clang-format-diff, rubocop, golangci-lint,
        clang-tidy, buf, sqlfluff, dprint, docker-slim, ansible-lint, sam-local, serverless-offline, prettierd
        """),
    (SAFE, "only computes", """
        openssl rand, openssl dgst, openssl version, openssl help, openssl base64, openssl sha256, openssl md5,
        openssl x509
        """),
    (NET, "talks to the network", "openssl s_client, openssl s_server, openssl ocsp"),
    (LOCAL, "makes keys and certificates", """
        openssl req, openssl genrsa, openssl genpkey, openssl ecparam, openssl dhparam
        """),
    (SAFE, "only reads", """
        journalctl, systemctl --version, gpg --version, gpg --verify, svn status, svn diff, svn log, svn info,
        hg status, hg log, hg diff, jj log, jj status, jj diff, dpkg-deb, ip-route
        """),
    (LOCAL, "changes the repository", """
        hg commit, hg add, hg init, hg update, svn add, svn revert, jj new, jj describe, jj commit, fossil add
        """),
)  # fmt: skip
