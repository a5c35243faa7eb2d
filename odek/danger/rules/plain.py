"""Programs that need no more than a class: one row, one reason."""

from __future__ import annotations

from odek.danger.rules.table import DESTROY, EXEC, LOCAL, NET, SAFE, SYSTEM, CommandRow

ROWS: tuple[CommandRow, ...] = (
    (SAFE, "only looks at services and their tables", """
        systemctl status, systemctl is-active, systemctl is-enabled, systemctl is-failed, systemctl show, systemctl cat,
        systemctl list-units, systemctl list-unit-files, systemctl list-timers, systemctl list-sockets,
        systemctl list-dependencies, systemctl get-default, systemctl is-system-running, launchctl list, journalctl
        """),
    (SAFE, "only reads", """
        ls, cat, bat, batcat, head, tail, less, more, tac, nl, wc, cut, paste, join, comm, cmp, diff, diff3, sdiff,
        colordiff, sort, uniq, tsort, tr, fold, fmt, column, expand, unexpand, rev, od, hexdump, xxd, strings, nm,
        objdump, readelf, size, ldd, addr2line, c++filt, file, stat, du, df, tree, eza, exa, lsd, find, fd, fdfind,
        locate, grep, egrep, fgrep, zgrep, zegrep, zfgrep, rg, ag, ack, ugrep, jq, yq, xq, gron, fx, dasel, xmllint,
        zcat, zmore, zless, zdiff, xzcat, bzcat, zstdcat, lz4cat, gzcat, base64, base32, md5sum, sha1sum, sha224sum,
        sha256sum, sha384sum, sha512sum, b2sum, b3sum, shasum, md5, cksum, sum, crc32, iconv, cloc, tokei, scc,
        sloccount, pygmentize, glow, mdcat, shellcheck, hadolint, actionlint, yamllint, jsonlint, markdownlint,
        markdownlint-cli2, vale, codespell, typos, proselint, cspell, checkbashisms, editorconfig-checker, tidy,
        aspell, hunspell
        """),
    (SAFE, "tells about the system", """
        pwd, whoami, id, groups, users, who, w, last, uptime, date, cal, uname, arch, hostname, nproc, lscpu, lsblk,
        lsusb, lspci, lsmod, lsof, free, vmstat, iostat, mpstat, sar, ps, pgrep, pidof, pstree, top, htop, btop,
        jobs, tty, stty, tput, locale, getconf, sw_vers, lsb_release, getent, ulimit, umask, times, nvidia-smi,
        sensors, dmesg, neofetch, fastfetch, screenfetch, which, whereis, whatis, apropos, type, man, info, help,
        tldr, history, fc, netstat, ss, ipcs, findmnt, mountpoint, blkid, xrandr, systemd-detect-virt, getopt
        """),
    (SAFE, "only computes", """
        true, false, :, test, [, expr, bc, dc, seq, shuf, factor, numfmt, basename, dirname, realpath, readlink,
        pathchk, sleep, usleep, wait, yes, echo, printf, exit, return, break, continue, shift, cd, pushd, popd,
        dirs, read, mapfile, readarray, getopts, let, unset, local, readonly, declare, typeset, export, set, shopt,
        bind, disown, fg, bg, suspend, caller, logout, uuidgen, tsort, clear, reset, figlet, lolcat, cowsay, pv,
        sync, units, envsubst, pkg-config, pkgconf, xdg-mime, gettext, ngettext, cmp, ts
        """),
    (LOCAL, "changes files", """
        touch, mkdir, rmdir, cp, mv, ln, link, install, rm, unlink, chmod, chgrp, setfacl, truncate, fallocate, tee,
        sponge, split, csplit, mkfifo, mktemp, patch, sed, gsed, dos2unix, unix2dos, rename, prename, shred, dd,
        rsync, gcp, gmv, grm, xattr, setfattr, ctags, etags, cscope, gtags, indent, astyle, uncrustify,
        clang-format, cmake-format, shfmt, buildifier, gofmt, goimports, gofumpt, rustfmt, ocamlformat, scalafmt,
        ktfmt, ktlint, nixfmt, alejandra, nixpkgs-fmt, stylua, dfmt, swiftformat, taplo, yamlfmt, jsonnetfmt,
        sqlfluff, sqlformat, dprint, autopep8, autoflake, docformatter, pyupgrade, yapf, isort, black, ruff, flake8,
        pylint, pycodestyle, pydocstyle, pyflakes, vulture, bandit, codemod, msgfmt, msgmerge, xgettext, protolint,
        buf, 2to3
        """),
    (LOCAL, "packs or unpacks files", """
        tar, bsdtar, gtar, star, unzip, zip, zipnote, gzip, gunzip, pigz, unpigz, bzip2, bunzip2, pbzip2, xz, unxz,
        lzma, unlzma, lzip, zstd, unzstd, lz4, unlz4, brotli, compress, uncompress, 7z, 7za, 7zr, 7zz, rar, unrar,
        ar, ranlib, strip, cpio, pax, jar, zipalign, unar, lsar, dtrx, atool, mksquashfs, unsquashfs, genisoimage,
        xorriso, ouch
        """),
    (LOCAL, "converts files", """
        convert, magick, mogrify, identify, ffmpeg, ffprobe, sox, pandoc, wkhtmltopdf, rsvg-convert, inkscape,
        optipng, pngquant, pngcrush, jpegoptim, jpegtran, cwebp, dwebp, gifsicle, exiftool, gs, pdftotext, pdftoppm,
        pdfunite, qpdf, pdftk, dot, neato, circo, fdp, plantuml, mmdc, gnuplot, asciidoctor, asciidoc, rst2html,
        csvcut, csvgrep, csvstat, in2csv, xsv, mlr, xsltproc, sassc, sass, lessc, dvipdfm, ps2pdf, tesseract,
        img2pdf, qrencode, svgo, terser, uglifyjs, csso, esbuild, swc, minify, html-minifier, graph-easy, ditaa, d2
        """),
    (LOCAL, "signals processes of its own user", "kill, pkill, killall, xkill, renice"),
    (EXEC, "builds or runs what the project describes", """
        make, gmake, bmake, remake, cmake, ctest, cpack, ninja, samu, meson, scons, waf, bazel, bazelisk, buck,
        buck2, pants, please, plz, gradle, gradlew, mvn, mvnw, mvnd, ant, sbt, mill, lein, boot, clj, clojure, ivy,
        just, task, go-task, rake, thor, invoke, inv, fab, nox, tox, pre-commit, lefthook, husky, lint-staged,
        xmake, premake5, qmake, autoconf, automake, aclocal, autoreconf, autoheader, libtoolize, libtool, gyp,
        node-gyp, gn, earthly, dagger, mage, doit, redo, tup, cake, nuke, fake, paket, msbuild, xbuild, xcodebuild,
        swift, swiftc, fastlane, colcon, catkin_make, west, pio, platformio, arduino-cli, idf.py, ampy, esptool.py,
        openocd, probe-rs, verilator, iverilog, vvp, yosys, ghdl, vivado, quartus_sh
        """),
    (EXEC, "compiles or links code", """
        gcc, g++, cc, c++, cpp, clang, clang++, clang-cl, tcc, icc, icx, nvcc, hipcc, ld, lld, gold, as, nasm, yasm,
        rustc, javac, kotlinc, kotlin, scalac, scala, scala-cli, groovyc, tsc, ghc, ghci, runghc, runhaskell, stack,
        cabal, ocaml, ocamlc, ocamlopt, ocamlfind, dune, fpc, gfortran, f95, flang, gnat, gnatmake, gprbuild, dmd,
        ldc2, gdc, dub, nim, nimble, crystal, shards, v, zig, odin, haxe, csc, mcs, fsc, vbc, valac, moc, uic, rcc,
        protoc, thrift, flatc, capnp, swig, bison, yacc, flex, lex, antlr, antlr4, emcc, em++, emcmake, emmake,
        emconfigure, wasm-pack, 2wasm, wasm-opt, ccache, sccache, distcc, pdflatex, xelatex, lualatex, latex,
        latexmk, tex, bibtex, biber, typst, tectonic, vite, webpack, rollup, parcel, tsup, turbo, nx, lerna, rush,
        gulp, grunt, ng, vue-cli-service, next, nuxt, gatsby, astro, remix, svelte-kit, expo, react-native, cordova,
        ionic, electron, electron-builder, tauri, storybook, ember, ncc, rspack, rsbuild, snowpack, solc, forge,
        hardhat, truffle, anchor, slither, elm, elm-test, purs, spago, gleam, rebar3, erlc, erl, escript, elixir,
        elixirc, iex, mix, rescript, cython, cythonize, nuitka, pyinstaller, maturin, mypyc, gcov, lcov, genhtml,
        gcovr, llvm-cov, llvm-profdata, lli, opt, llc, qemu-img
        """),
    (EXEC, "runs code of the project", """
        pytest, py.test, unittest, nosetests, nose2, coverage, hypothesis, behave, robot, locust, mypy, pyright,
        basedpyright, pytype, pyre, dmypy, sphinx-build, sphinx-autobuild, sphinx-apidoc, mkdocs, pdoc, pydoc,
        jupyter, ipython, ipython3, jupyter-lab, jupyter-notebook, nbconvert, papermill, streamlit, gunicorn,
        uvicorn, hypercorn, daphne, waitress-serve, flask, django-admin, celery, alembic, scrapy, fastapi, kedro,
        dvc, airflow, dagster, prefect, dbt, luigi, snakemake, nextflow, eslint, eslint_d, prettier, jest, vitest,
        mocha, ava, tap, karma, jasmine, cypress, playwright, nyc, c8, tsx, ts-node, nodemon, pm2, node, nodejs,
        deno, bun, standard, xo, stylelint, tslint, biome, oxlint, rome, knip, depcheck, typedoc, jsdoc,
        api-extractor, changeset, semantic-release, release-it, commitlint, svelte-check, vue-tsc, prisma,
        drizzle-kit, typeorm, sequelize, knex, graphql-codegen, openapi-generator, openapi-generator-cli,
        swagger-codegen, json-server, http-server, serve, live-server, concurrently, npm-run-all, run-s, run-p,
        rspec, rubocop, standardrb, minitest, cucumber, rails, rackup, puma, unicorn, sidekiq, irb, pry, jekyll,
        yard, rdoc, reek, brakeman, solargraph, sorbet, srb, guard, spring, ruby, phpunit, pest, phpstan, psalm,
        php-cs-fixer, phpcs, phpcbf, rector, artisan, php, symfony, drush, wp, behat, codecept, infection, perl,
        prove, perldoc, plackup, perltidy, perlcritic, lua, luajit, busted, luacheck, R, Rscript, julia, octave,
        octave-cli, matlab, maxima, gp, sage, magma, python, pypy, pypy3, micropython, java, jshell, jruby, jython,
        groovy, dotnet-script, mono, csi, fsi, guile, racket, raco, scheme, chez, sbcl, clisp, ecl, gosh, tclsh,
        wish, expect, osascript, pwsh, powershell, nu, elvish, xonsh, swipl, gprolog, erl_call, io, janet, fennel,
        red, wasmtime, wasmer, wasmedge, node-red, hugo, zola, eleventy, hexo, docusaurus, vuepress, vitepress,
        gitbook, mdbook, quarto, bookdown, k6, artillery, wrk, ab, hey, vegeta, siege, newman, hurl, bats,
        shellspec, shunit2, goss, inspec, molecule, ansible-lint, golangci-lint, staticcheck, gosec, govulncheck,
        revive, errcheck, gotestsum, ginkgo, gomock, mockgen, mockery, sqlc, wire, air, dlv, gopls, stringer, swag,
        goreleaser, ko, templ, cargo-nextest, trunk, cross, clippy-driver, miri, bindgen, cbindgen, diesel, sqlx,
        sea-orm-cli, gdb, lldb, valgrind, perf, hyperfine, heaptrack, rr, strace, ltrace, dtrace, bpftrace,
        clang-tidy, cppcheck, include-what-you-use, scan-build, infer, semgrep, snyk, trivy, grype, syft, codeql,
        sonar-scanner, detekt, checkstyle, pmd, spotbugs, swiftlint, credo, dialyzer, hlint, ormolu, ghcid, hoogle,
        qemu-system-x86_64, qemu-system-aarch64, qemu-x86_64, qemu-aarch64, wine, wine64, box64, godot, unity,
        blender, love, processing, openscad, freecad, ngspice, act, gitlab-runner, screen, tmux, byobu, zellij,
        dtach, script, entr, chexec, reflex, fswatch, rlwrap, at, batch, dbus-launch, xvfb-run, Xvfb, emulator,
        flutter, dart, melos, pod, carthage, tuist, sourcery, ffuf, alias, unalias, trap, hash, enable, complete,
        coproc
        """),
    (EXEC, "is an editor, which can run commands", """
        vi, vim, nvim, view, rvim, gvim, ex, ed, emacs, emacsclient, nano, pico, micro, helix, hx, kak, joe, mcedit,
        code, codium, cursor, subl, gedit, kate, mc, ranger, nnn, vifm, lf, fzf, sk, peco
        """),
    (NET, "talks to the network", """
        curl, wget, wget2, nc, ncat, netcat, ssh, scp, sftp, ftp, lftp, tftp, telnet, socat, rclone, dig, nslookup,
        host, drill, aria2c, axel, httpie, http, https, xh, curlie, ping, ping6, fping, hping3, traceroute,
        tracepath, mtr, whois, nmap, masscan, arp, arping, iperf, iperf3, speedtest, speedtest-cli, grpcurl,
        websocat, wscat, mosquitto_pub, mosquitto_sub, kcat, kafkacat, mail, mailx, sendmail, mutt, msmtp, swaks,
        irssi, weechat, lynx, links, elinks, w3m, youtube-dl, yt-dlp, ngrok, cloudflared, localtunnel, lt, bore,
        tailscale, wg, openvpn, ssh-copy-id, ssh-keyscan, sshfs, mosh, autossh, croc, wormhole, magic-wormhole,
        ipfs, transmission-cli, deluge, svn, hg, bzr, cvs, fossil, darcs, jj, git-lfs, xdg-open, ollama,
        huggingface-cli, hf, kaggle, nats, etcdctl, consul, vault, redis-benchmark, tcpdump, tshark, wireshark,
        mitmproxy, chromium, google-chrome, firefox, step, wait-for-it, dockerize, ip, ifconfig, route, nmcli,
        resolvectl, ntpdate, chronyc, rsh, rlogin, finger, logger
        """),
    (NET, "talks to a database", """
        psql, pgcli, pg_dump, pg_dumpall, pg_restore, pg_isready, pgbench, createdb, createuser, vacuumdb,
        reindexdb, mysql, mycli, mariadb, mysqldump, mariadb-dump, mysqladmin, mysqlimport, mysqlcheck, redis-cli,
        valkey-cli, mongosh, mongo, mongodump, mongorestore, mongoexport, mongoimport, sqlite3, litecli, duckdb,
        clickhouse-client, clickhouse, cqlsh, influx, sqlcmd, bcp, sqlplus, cypher-shell, neo4j-admin, cockroach,
        usql, dbmate, flyway, liquibase, migrate, goose, atlas, rabbitmqadmin, rabbitmqctl, kafka-topics,
        kafka-console-producer, kafka-console-consumer, kafka-topics.sh, elasticdump, memcached-tool, memcstat,
        presto, trino, snowsql, bteq, isql, tsql, osm2pgsql, ogr2ogr
        """),
    (SYSTEM, "acts with the rights of another user or on another root", """
        su, runuser, setpriv, pkexec, sudoedit, visudo, newgrp, sg, chroot, nsenter, unshare, bwrap, firejail,
        systemd-run, systemd-nspawn, machinectl, fakechroot, gosu, su-exec, capsh, setcap
        """),
    (SYSTEM, "manages the system", """
        apt, apt-get, aptitude, apt-key, apt-mark, add-apt-repository, yum, dnf, microdnf, zypper, pacman, yay,
        paru, brew, port, dpkg, dpkg-reconfigure, rpm, rpmbuild, flatpak, snap, emerge, xbps-install, xbps-remove,
        pkg, pkg_add, eopkg, swupd, nix-env, nix-channel, softwareupdate, mas, winget, choco, scoop, installer,
        hdiutil, systemctl, service, rc-service, rc-update, chkconfig, initctl, launchctl, update-rc.d,
        update-alternatives, alternatives, loginctl, timedatectl, hostnamectl, localectl, useradd,
        userdel, usermod, adduser, deluser, groupadd, groupdel, groupmod, addgroup, delgroup, gpasswd, passwd,
        chpasswd, chage, chsh, chfn, vipw, chown, chattr, mount, umount, swapon, swapoff, losetup, modprobe, insmod,
        rmmod, depmod, sysctl, iptables, ip6tables, nft, ufw, firewall-cmd, tc, brctl, ethtool, crontab, anacron,
        logrotate, ldconfig, update-grub, grub-install, update-initramfs, dracut, efibootmgr, tune2fs, resize2fs,
        fsck, e2fsck, xfs_repair, lvcreate, pvcreate, vgcreate, lvextend, hwclock, authconfig, semanage, setsebool,
        setenforce, restorecon, aa-enforce, apparmor_parser, auditctl, certbot, update-ca-certificates,
        update-ca-trust, trust, defaults, scutil, dscl, csrutil, spctl, security, pmset, networksetup, xcode-select,
        loadkeys, dpkg-divert, debconf-set-selections, unattended-upgrade, needrestart, tuned-adm, kexec, kubeadm,
        k3s, microk8s, k0s
        """),
    (SYSTEM, "shows or changes secrets", """
        gpg, gpg2, gpgconf, pass, gopass, secret-tool, keyring, op, bw, lpass, age, sops, ssh-add, ssh-keygen,
        keytool, openssl, kinit, klist, aws-vault, chamber, doppler, infisical, berglas, printenv, odek, mkcert,
        git-crypt, dotenvx, credstash, authselect
        """),
    (DESTROY, "stops the machine", "shutdown, reboot, halt, poweroff, telinit, init"),
    (DESTROY, "overwrites disks or file systems", """
        mkfs, mke2fs, mkdosfs, mkswap, fdisk, parted, sgdisk, gdisk, cfdisk, sfdisk, wipefs, blkdiscard, badblocks,
        cryptsetup, zerofree, mkfs.ext2, mkfs.ext3, mkfs.ext4, mkfs.xfs, mkfs.btrfs, mkfs.vfat, mkfs.fat, mkfs.ntfs,
        mkfs.f2fs, mkfs.msdos, mkfs.exfat, mkfs.minix, mkfs.bfs, mkfs.cramfs, newfs, diskutil, hdparm, nvme,
        sg_format, mdadm, zpool, zfs, lvremove, vgremove, pvremove, partprobe, testdisk, format, scrub, srm, wipe,
        bleachbit
        """),
)  # fmt: skip
