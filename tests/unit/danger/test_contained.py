"""What matters on the host but not in a container that is thrown away (D-6)."""

from __future__ import annotations

import pytest

from odek.danger.classify import classify
from odek.danger.paths import Place
from odek.danger.risk import Finding, Hosts, RiskClass, Scope, contained

HOST = Place(home="/home/user", cwd="/home/user/project", workspace="/home/user/project")
SANDBOX = Place(home="/tmp", cwd="/workspace", workspace="/workspace", sandboxed=True)
OF_THE_SYSTEM = """
sudo true
doas true
su -c true
chroot /x true
unshare true
newgrp wheel
apt-get install jq
apk del jq
dnf remove jq
useradd bob
systemctl restart nginx
mount /dev/sdb /mnt
sysctl -w a=1
date -s 12:00
hostname -b x
dmesg -C
init 3
git config --global user.name x
env
printenv
printenv API_TOKEN
set
export -p
declare
compgen -v
ps aux e
echo $API_TOKEN
printf %s "$DB_PASSWORD"
cat <<< "$AWS_SECRET_ACCESS_KEY"
""".strip().splitlines()
OF_THE_WORKSPACE = """
git reset --hard
git push --force
git stash drop
cat .env
cat config/.ssh/id_rsa
gpg --export-secret-keys
kubectl apply -f x.yaml
terraform apply
docker run x
git credential fill
curl --unix-socket /x http://x
tar -P -xf x.tar
""".strip().splitlines()


@pytest.mark.parametrize("command", OF_THE_SYSTEM)
def test_system_of_a_container_is_of_no_account(command: str) -> None:
    """D-6: its users, packages, settings and environment go with it."""
    assert classify(command, HOST).level is RiskClass.SYSTEM_WRITE
    assert classify(command, SANDBOX).level < RiskClass.SYSTEM_WRITE


@pytest.mark.parametrize("command", OF_THE_WORKSPACE)
def test_work_and_secrets_count_in_a_container_too(command: str) -> None:
    """D-6: the project is mounted, and what is shown or changed elsewhere stays."""
    assert [classify(command, place).level for place in (HOST, SANDBOX)] == [RiskClass.SYSTEM_WRITE] * 2


@pytest.mark.parametrize(
    ("level", "scope", "hosts", "inside"),
    [
        (RiskClass.SYSTEM_WRITE, Scope.SYSTEM, None, RiskClass.LOCAL_WRITE),
        (RiskClass.SYSTEM_WRITE, Scope.WORKSPACE, None, RiskClass.SYSTEM_WRITE),
        (RiskClass.SYSTEM_WRITE, Scope.NETWORK, None, RiskClass.SYSTEM_WRITE),
        (RiskClass.DESTRUCTIVE, Scope.SYSTEM, None, RiskClass.DESTRUCTIVE),
        (RiskClass.BLOCKED, Scope.SYSTEM, None, RiskClass.BLOCKED),
        (RiskClass.NETWORK_EGRESS, Scope.NETWORK, None, RiskClass.NETWORK_EGRESS),
        (RiskClass.NETWORK_EGRESS, Scope.NETWORK, ("db",), RiskClass.LOCAL_WRITE),
        (RiskClass.NETWORK_EGRESS, Scope.NETWORK, ("db", "evil"), RiskClass.NETWORK_EGRESS),
        (RiskClass.NETWORK_EGRESS, Scope.NETWORK, (), RiskClass.LOCAL_WRITE),
        (RiskClass.DESTRUCTIVE, Scope.WORKSPACE, ("db",), RiskClass.DESTRUCTIVE),
    ],
)
def test_scope_decides_what_a_container_makes_of_a_finding(
    level: RiskClass, scope: Scope, hosts: Hosts, inside: RiskClass
) -> None:
    finding = Finding(level=level, rule="x", reason="y", scope=scope, hosts=hosts)
    assert contained(finding, frozenset({"db"})).level is inside
