"""Options that change what a program does, and which options take a value."""

from __future__ import annotations

from collections.abc import Mapping

from odek.danger.rules.table import DESTROY, EXEC, LOCAL, NET, SYSTEM, Operands, OptionRow

OPTIONS: tuple[OptionRow, ...] = (
    (EXEC, "runs a helper program that the configuration names", """
        git --exec-path, git diff --ext-diff, git log --ext-diff, git show --ext-diff, git blame --textconv,
        git diff --textconv, git log --textconv, git show --textconv, git cat-file --textconv,
        git cat-file --filters, git grep --textconv, git grep -O --open-files-in-pager,
        git branch --edit-description, git commit --gpg-sign-program, git rebase -x --exec,
        git archive --exec --remote, git clone -u --upload-pack -c --config --template, git fetch --upload-pack,
        git pull --upload-pack, git ls-remote --upload-pack --exec, git push --receive-pack --exec,
        git init --template, git config -e --edit, git am -i, git send-email --sendmail-cmd --smtp-server,
        git difftool --extcmd, git submodule --upload-pack, git svn --authors-prog, git tag --sign-program,
        git rebase -i --interactive --edit-todo, git add -e --edit, git config --global --system
        """),
    ("write", "", """
        git diff --output, git log --output, git show --output, git diff-tree --output, git diff-index --output,
        git diff-files --output, git whatchanged --output, git format-patch -o --output-directory --output,
        git archive -o --output, git range-diff --output, git stash show --output, git shortlog --output,
        git blame --output
        """),
    (SYSTEM, "loses work or history that cannot be had back", """
        git reset --hard --merge --keep, git clean -f --force -X -d, git checkout -f --force,
        git switch -f --force --discard-changes, git branch -D -d --delete -f --force -M -C,
        git tag -d --delete -f --force, git push -f --force --force-with-lease -d --delete --mirror --prune,
        git gc --prune, git update-ref -d --delete --stdin, git rm -f --force, git worktree remove -f,
        git submodule deinit -f --force --all, git read-tree --reset, git symbolic-ref -d --delete,
        git replace -d --delete, git checkout-index -f, git filter-branch -f, git repack --cruft-expiration
        """),
    (LOCAL, "changes the repository", """
        git branch -m --move -c --copy -u --set-upstream-to --unset-upstream -t --track,
        git tag -a -s -m -F --annotate, git reflog --rewrite, git symbolic-ref -m, git hash-object -w, git notes -m,
        git fsck --lost-found
        """),
    (NET, "talks to a remote repository", "git remote add -f --fetch, git archive --remote"),
    (EXEC, "runs a program that an option names", """
        tar --to-command --checkpoint-action -I --use-compress-program, tar --rmt-command --rsh-command -F,
        tar --info-script --new-volume-script, bsdtar --use-compress-program,
        gtar --to-command --checkpoint-action -I --use-compress-program --rmt-command --rsh-command --info-script,
        zip -T --test -TT --unzip-command, rsync -e --rsh --rsync-path, cpio --rsh-command --to-command,
        split --filter, sort --compress-program, rg --pre --hostname-bin, ag --pager, ack --pager,
        fd --exec -X --exec-batch, fdfind --exec -X --exec-batch, man -P --pager -H --html, bat --pager,
        batcat --pager, ctags --options, curl -K --config, wget --use-askpass --config, wget -e --execute,
        aria2c --on-download-complete --on-download-start --on-bt-download-complete --conf-path,
        yt-dlp --exec --config-location --downloader, youtube-dl --exec --config-location --external-downloader,
        scp -S -o -F, sftp -S -o -F -b -D, svn --config-option --diff-cmd --editor-cmd, hg --config,
        nc -e -c --exec --sh-exec --lua-exec, ncat -e -c --exec --sh-exec --lua-exec, netcat -e -c,
        openvpn --up --down --script-security --config, nmap --script, tcpdump -z --postrotate-command,
        mosh --ssh --server, rclone --password-command, sendmail -C -O, mail -S, mysql --pager,
        pandoc -F --filter -L --lua-filter --pdf-engine, ctags --_x, go -toolexec -exec, exiftool -config -if,
        patch --ed -e, pip --python, sqlite3 -init, duckdb -init
        """),
    (SYSTEM, "writes wherever an archive says", """
        tar -P --absolute-names, bsdtar -P --absolute-paths, gtar -P --absolute-names, unzip -:
        """),
    ("write", "", """
        curl -o --output -D --dump-header -c --cookie-jar --output-dir --trace --trace-ascii --stderr,
        curl --etag-save --hsts --libcurl --alt-svc,
        wget -O --output-document -o --output-file -a --append-output -P --directory-prefix --save-cookies,
        wget2 -O --output-document -P, aria2c -o --out -d --dir -l --log, axel -o --output,
        yt-dlp -o --output -P --paths, youtube-dl -o --output, http -o --output, https -o --output, xh -o --output,
        sort -o --output, shuf -o --output, tree -o, gcc -o, g++ -o, cc -o, c++ -o, clang -o, clang++ -o, ld -o,
        rustc -o --out-dir, javac -d, tsc --outDir --outFile, go -o, openssl -out, pandoc -o --output, dot -o,
        xsltproc -o --output, unzip -d, tar -C --directory, bsdtar -C --directory, gtar -C --directory,
        cp -t --target-directory, mv -t --target-directory, ln -t --target-directory, install -t --target-directory,
        patch -o --output -d --directory -r --reject-file, csplit -f --prefix, pg_dump -f --file,
        pg_dumpall -f --file, psql -o --output -L --log-file, mysqldump -r --result-file,
        pip --log --log-file -t --target --prefix --root --cache-dir, ssh-keygen -f, strip -o, iconv -o --output,
        cmake -B, zstd -o, brotli -o --output, base64 -o --output, identify -write, esbuild --outfile --outdir,
        svgo -o --output, terser -o --output, gpg -o --output, age -o --output, mktemp -p --tmpdir, tcpdump -w,
        tshark -w, bison -o --output, flex -o, nasm -o, as -o, scc -o --output, mongodump -o --out,
        mongoexport -o --out, xmllint -o --output, gh -D --dir, ffuf -o
        """),
    (LOCAL, "changes files", """
        yq -i --inplace, dos2unix -n, markdownlint -f --fix, codespell -w --write-changes, typos -w --write-changes
        """),
    (SYSTEM, "changes the system", """
        date -s --set, hostname -b --boot -F --file, sysctl -w, dmesg -C --clear -c -n, npm --unsafe-perm
        """),
    (SYSTEM, "reaches the container engine or another local service", "curl --unix-socket --abstract-unix-socket"),
    (NET, "talks to the network", """
        gpg --recv-keys --keyserver --search-keys --send-keys --refresh-keys, npm --registry
        """),
    (DESTROY, "deletes data", """
        docker compose down -v --volumes, docker-compose down -v --volumes, docker rm -v --volumes,
        aws s3 rm --recursive, aws s3 sync --delete, kubectl replace --force, terraform apply -destroy,
        podman rm -a --all, s3cmd del -r --recursive, gsutil rsync -d
        """),
    (DESTROY, "deletes files that are not in the source", """
        rsync --delete --delete-before --delete-during --delete-delay --delete-after --delete-excluded,
        rsync --del --remove-source-files
        """),
    ("run", "runs a command that an option names", """
        script -c --command, nodemon --exec, su -c --command, runuser -c --command, sg -c, flock -c --command,
        nix-shell --run --command
        """),
)  # fmt: skip

VALUES: Mapping[str, str] = {
    "git": """
        -C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source -m --message -F --file
        --author --date --depth -b -B --branch --reference
        """,
    "npm pnpm yarn": """
        --prefix --cwd -C --dir -w --workspace --filter -F --userconfig --cache --registry --loglevel --tag
        """,
    "bun": "--cwd --config -c --filter",
    "pip": """
        -r --requirement -c --constraint -e --editable -i --index-url --extra-index-url --proxy --timeout
        --trusted-host -f --find-links
        """,
    "uv": """
        --directory --project --config-file --cache-dir -p --python --index --extra --group --with -r --requirement
        """,
    "poetry pdm hatch pipenv rye": """
        -C --directory -P --project -p -e --env --with --without --only -G --group --python
        """,
    "conda mamba micromamba": "-n --name -p --prefix -c --channel -f --file",
    "cargo": """
        -C --config -Z --color --manifest-path --target --target-dir -p --package --features -j --jobs --profile
        --bin --example
        """,
    "go": "-C -tags -ldflags -gcflags -run -bench -count -timeout -p -mod -o -coverprofile -exec -toolexec",
    "docker docker-compose podman nerdctl podman-compose": """
        -H --host -c --context -l --log-level --config --tlscacert --tlscert --tlskey -f --file -p --project-name
        --profile --env-file --project-directory --connection --url --ansi --filter --format -t --tag
        """,
    "kubectl oc helm": """
        -n --namespace --context --cluster --user --kubeconfig -s --server --token -l --selector -o --output -f
        --filename -c --container --as --request-timeout --kube-context --set --values --version
        """,
    "aws": """
        --profile --region --output --endpoint-url --query --color --ca-bundle --cli-read-timeout
        --cli-connect-timeout
        """,
    "gcloud": "--project --account --region --zone --format --configuration --verbosity --filter",
    "az": "-g --resource-group -n --name --subscription -o --output --query -l --location",
    "terraform tofu terragrunt": """
        -chdir -var -var-file -target -out -state -backend-config -lock-timeout -parallelism
        """,
    "gh glab": """
        -R --repo --hostname -L --limit -s --state --json -q --jq -t --template -b --body --title -B --base -H
        --head -F
        """,
    "gem bundle bundler": "--gemfile --path -v --version --source -j --jobs --without",
    "composer": "-d --working-dir",
    "dotnet": "-c --configuration -f --framework -r --runtime -o --output -v --verbosity --project",
    "apk": "-p --root -X --repository --keys-dir --repositories-file -t --virtual",
    "redis-cli valkey-cli": "-h -p -s -a -u -n -r -i --user --pass --cacert --cert --key",
    "mysql mariadb mysqldump": """
        -h --host -P --port -u --user -D --database -e --execute -S --socket --defaults-file
        """,
    "mongosh mongo": "--host --port --eval -u -p --username --password --authenticationDatabase -f --file",
    "psql": "-h --host -p --port -U --username -d --dbname -c --command -f --file -v --set --variable -P --pset",
    "curl": """
        -H --header -d --data --data-raw --data-binary --data-urlencode -X --request -u --user -A --user-agent -e
        --referer -b --cookie -F --form -m --max-time --connect-timeout --retry --proxy -w --write-out -r --range -T
        --upload-file -E --cert --key --cacert --resolve --url -K --config
        """,
    "wget wget2": """
        -e --execute --header --post-data --post-file --user --password -U --user-agent -t --tries -T --timeout -i
        --input-file --method --body-data --body-file
        """,
    "nodemon": "-w --watch -e --ext",
    "mix rebar3": "--only",
    "flutter dart": "-d --device-id",
    "swift": "-c --configuration",
    "nix": "--option",
    "heroku fly flyctl": "-a --app",
    "vault consul nomad etcdctl": "--endpoints",
    "sort": "-k --key -t --field-separator -S --buffer-size -T --temporary-directory --parallel --batch-size",
    "uniq": "-f -s -w",
    "head tail": "-n -c",
    "touch": "-d --date -t -r --reference",
    "mkdir install": "-m --mode -o --owner -g --group",
    "grep egrep fgrep rg": """
        -e --regexp -f --file -m --max-count -A -B -C --include --exclude --exclude-dir -g --glob -t --type
        """,
    "diff": "--exclude -U --unified -I",
    "split": "-l -b -n -a -C",
    "truncate": "-s --size -r --reference",
    "unzip": "-P",
    "zip": "-i -P",
    "rsync": """
        -e --rsh --exclude --include --filter -f --exclude-from --include-from --files-from --rsync-path -T
        --temp-dir --log-file --password-file --bwlimit --port --chmod --out-format
        """,
    "ssh": "-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B",
    "scp sftp": "-c -F -i -J -l -o -P -S -D -b -B -R -X",
    "kill": "-s --signal -n",
    "pkill pgrep killall": "-s --signal -u -U -g -P -t -G --euid --parent",
    "sed gsed": "-e --expression -f --file -l --line-length",
    "awk gawk mawk nawk": "-F -v -f --file --field-separator --assign -e --source -i --include -E --exec -l --load",
    "chmod chgrp": "--reference",
    "ln cp mv": "-S --suffix",
    "patch": "-p --strip -i --input -D -F",
    "ffmpeg": "-i -c -f -t -ss -vf -af -r -b -s -map",
    "ping": "-c -i -W -w -I -s -t",
    "dig nslookup": "-p -t -q",
    "nc ncat netcat": "-p -s -w -q -i -X",
    "openssl": "-in -out -keyout -days -subj -newkey -key -passin -passout -connect",
    "xargs": "-I -n -P -L -d -a -s -E",
    "jq": "--arg --argjson --slurpfile --rawfile -f --from-file --indent",
    "yq": "-o --output-format -p --input-format",
    "journalctl": "-u --unit -n --lines --since --until -p -t -o",
    "apt-cache dpkg-query": "-o -f --showformat",
}  # fmt: skip

FLAGS: Mapping[str, str] = {
    "git": """
        -p --paginate -P --no-pager --bare --no-replace-objects --literal-pathspecs --glob-pathspecs
        --noglob-pathspecs --icase-pathspecs --no-optional-locks --no-lazy-fetch --no-advice --html-path --man-path
        --info-path
        """,
    "npm pnpm yarn bun": """
        -g --global -s --silent -q --quiet --verbose -y --yes --json -r --recursive --no-audit --no-fund
        --legacy-peer-deps --force -f --frozen-lockfile --immutable --offline --production --no-color -D -w
        --workspaces --no-save --bun
        """,
    "pip uv poetry pdm hatch pipenv": """
        -q --quiet -v -vv --verbose --no-cache-dir --no-cache --no-input --isolated --disable-pip-version-check -n
        --no-interaction --no-ansi --offline --frozen --locked --system --require-virtualenv --no-color
        """,
    "conda mamba micromamba": "-y --yes -q --quiet --json",
    "cargo": "-q --quiet -v -vv --verbose --frozen --locked --offline",
    "docker docker-compose podman": """
        -D --debug --tls --tlsverify --compatibility --dry-run --verbose --no-ansi --all-resources
        """,
    "kubectl oc helm": "--debug --insecure-skip-tls-verify -A --all-namespaces",
    "aws": "--debug --no-verify-ssl --no-paginate --no-sign-request --no-cli-pager --no-cli-auto-prompt",
    "gcloud": "-q --quiet",
    "gem bundle bundler": "-q --quiet -V --verbose --no-color",
    "composer": "-q --quiet -v -vv -vvv --no-interaction -n --no-ansi --ansi --profile",
    "apk": "-q --quiet -v --verbose --no-cache -U --update-cache --no-progress",
    "terraform tofu": "-no-color",
    "dotnet": "-d --diagnostics",
    "redis-cli valkey-cli": "--raw --no-raw --tls -c --csv --json --no-auth-warning -3",
    "mysqladmin": "-f --force -v",
    "flutter dart": "-v --verbose --no-version-check",
    "systemctl": "--user --no-pager -q",
}  # fmt: skip

WRITTEN: Mapping[Operands, str] = {
    "all": """
        touch, mkdir, rmdir, unlink, truncate, fallocate, tee, sponge, mkfifo, shred, chown, chgrp, setfacl, gzip,
        gunzip, bzip2, bunzip2, xz, unxz, dos2unix, unix2dos, strip, ranlib, compress, uncompress, setfattr, xattr,
        clang, optipng, pngcrush, jpegoptim, mogrify, git worktree add, git mv, git rm, git init, indent, srm, wipe,
        pigz, unpigz, lz4, lzip, zipalign, rename, prename, grm, mktemp
        """,
    "last": """
        cp, ln, link, install, mv, gcp, gmv, sshfs, git, ffmpeg, convert, magick, pdfunite, img2pdf, qpdf, ps2pdf,
        dvipdfm, wkhtmltopdf, sox, cwebp, dwebp, rsvg-convert, mksquashfs, git bundle create, jpegtran
        """,
    "first": "patch, zip, cargo new, npm, virtualenv, sqlite3, duckdb, uv venv, dotnet",
    "rest": "git clone, chmod, uniq, sassc, svn checkout, hg clone",
}  # fmt: skip

WHOLE = frozenset(
    """
    consul convert dart duckdb exiftool ffmpeg find ghc go identify java javac magick mogrify nomad openssl packer
    sqlite3 swiftc terraform tofu vault xmllint
    """.split()
)
"""programs whose single-dash options are words"""
