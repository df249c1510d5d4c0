"""What the commands refuse: exit code 2, nothing on standard output, and what is wrong."""

from __future__ import annotations

import shlex

import pytest

from tests.support.cli_run import ROOT, run

pytestmark = pytest.mark.kernels

REFUSALS = """
nope | No such command 'nope'
fail | Missing argument 'INPUT...'
fail CLUSTER | give the brokers that fail: --brokers IDS, or --racks NAMES
fail CLUSTER --brokers x | 'x' is not a broker id
fail CLUSTER --brokers '' | has an empty item
fail CLUSTER --brokers 1,,2 | has an empty item
fail CLUSTER --brokers -1 | is not a broker id
fail CLUSTER --brokers 1.5 | is not a broker id
fail CLUSTER --brokers 4-2 | is not a range of brokers
fail CLUSTER --brokers 0-99999999 | at most 65536
fail CLUSTER --brokers 1,9 | broker 9 is unknown; the cluster has brokers 1, 2, 3, 4
fail CLUSTER --brokers 4 | broker 4 is down already
fail CLUSTER --brokers 4 | --up 4 says that it is up
fail CLUSTER --brokers 1 --default min.insync.replicas | is not of the form
fail CLUSTER --brokers 1 --default min.insync.replicas=0 | min.insync.replicas
fail CLUSTER --brokers 1 --default log.dirs=1 | log.dirs
show CLUSTER --default min.insync.replicas=2 --default min.insync.replicas=3 | given as 2 and as 3
fail CLUSTER --brokers 1 --explain orders | is not topic-partition, such as orders-7
fail CLUSTER --brokers 1 --explain orders-9 | orders-9
fail CLUSTER --brokers 1 --up 77 | 77
fail CLUSTER --brokers 1 --threads 0 | --threads
fail CLUSTER --brokers 1 -o no/such/x.json | the folder of no/such/x.json does not exist
fail CLUSTER --racks a, | has an empty item
fail CLUSTER --racks a | has no racks, so --racks cannot be used
fail CLUSTER --racks a | supply them with --brokers-file CSV
fail CLUSTER --racks z --brokers-file RACKS | rack z is unknown; the cluster has racks a, b
fail CLUSTER --brokers 1 --then 1 | broker 1
fail CLUSTER --brokers 1 --then-start 2 | broker 2
fail CLUSTER --brokers 1 --then 99 | broker 99 is unknown
fail CLUSTER --brokers 1 --set min.insync.replicas=2 | is not REGEX:NAME=VALUE
fail CLUSTER --brokers 1 --set (:min.insync.replicas=2 | is not a regular expression
fail CLUSTER --brokers 1 --set order:min.insync.replicas=2 | no topic's whole name matches
fail CLUSTER --brokers 1 --set a{99999999999}:min.insync.replicas=2 | not a regular expression
fail CLUSTER --brokers 1 --set .*:min.insync.replicas=0 | min.insync.replicas
fail CLUSTER --brokers 1 --set .*:retention.ms=1 | retention.ms
fail CLUSTER --brokers 1 --set .*:unclean.leader.election.enable=perhaps | perhaps
fail CLUSTER --brokers 1 --fail-on offlin>0 | these are: offline, under_min_isr
fail CLUSTER --brokers 1 --fail-on offline=>0 | these are: > >= < <= == !=
fail CLUSTER --brokers 1 --fail-on offline | is not metric, operator, number
fail CLUSTER --brokers 1 --fail-on offline>x | --fail-on
fail CLUSTER --brokers 1 --fail-on offline>0. | --fail-on
fail CLUSTER --brokers 1 --fail-on >0 | --fail-on
show CLUSTER --fail-on leaders_moved>0 | metric 'leaders_moved' is unknown
show CLUSTER --brokers-file '' | name of the file is empty
show CLUSTER -o '' | name of the file is empty
save CLUSTER -o '' | name of the file is empty
sweep CLUSTER --scenarios '' | name of the file is empty
save CLUSTER -o x.docx | ends in .docx
generate --brokers 2 --partitions 3 --format arrow -o - --replication-factor 3 | replication_factor
reassign CLUSTER | nothing is being reassigned in
reassign - --plan - | standard input can be read once, and - stands for INPUT and --plan
show - --brokers-file - | standard input can be read once
sweep BENCH --every 1 --seed 3 | --seed goes with --random
plan check BENCH PLAN --load x --capacity y --fetch-from nearest | is not taken here
schema --answers -o x.json | --answers goes alone
shwo | No such command 'shwo'; did you mean show?
capacity swep | did you mean sweep?
reassign CLUSTER --plan PLAN --brokers 77 | broker 77 is unknown; the cluster has
reassign CLUSTER --plan PLAN --brokers 4 | broker 4 is not registered
reassign CLUSTER --plan PLAN --brokers x | 'x' is not a broker id
reassign CLUSTER --plan PLAN --profile zk-9 | zk-3.9
reassign CLUSTER --plan PLAN --profile zk-2.0 | broker 9 is unknown
reassign CLUSTER --plan PLAN --table requests --format table | --table goes with
reassign CLUSTER --plan PLAN --fail-on isr_shrunk>0 | these are: offline
delete CLUSTER | --topics
delete CLUSTER --topics orders,nope,neither | topic nope, neither is unknown
delete CLUSTER --topics orders, | has an empty item
delete CLUSTER --topics orders --brokers 4 | broker 4 is not registered
delete CLUSTER --topics logs --fail-on offline>0 | metric 'offline' is unknown
restart CLUSTER --isr-margin -1 | --isr-margin
restart CLUSTER --by-rack | without a rack
restart CLUSTER --broker 1 --by-rack | --by-rack goes without --broker
restart CLUSTER --broker 1 --fail-on batches>1 | batches>1 goes without
restart CLUSTER --fail-on forbidding>1 | forbidding>1 goes with --broker
restart CLUSTER --broker 1 --table batches | no table batches
restart CLUSTER --broker 9 | broker 9 is unknown
restart CLUSTER --ignore-topics ( | is not a regular expression
restart CLUSTER --ignore-topics order | no topic's whole name matches 'order'
restart CLUSTER --seconds-per-broker -1 | --seconds-per-broker
restart CLUSTER --table partitions -o /no/such/x.csv | the folder of
restart CLUSTER --fail-on offline>0 | metric 'offline' is unknown
risk CLUSTER --down 9 | has 3 live brokers, so at most 3 can fail
risk CLUSTER --down x | 'x' is not a number of brokers
risk CLUSTER --random 0 | --random
sweep CLUSTER | give one kind of failures
sweep CLUSTER --each-rack --every 1 | give one kind of failures
sweep CLUSTER --random 5 --down 1,2 | goes with one of --down K and --probability P
sweep CLUSTER --random 5 | goes with one of --down K and --probability P
sweep CLUSTER --every 1 --down 3 | goes with one of --down K and --probability P
sweep BENCH --every 13 | k is 13; 12 brokers are up
sweep CLUSTER --every 1 -o rows.html | ends in .html, which is not written here
sweep BENCH --every 1 --from 14 | the last scenario is 12
"""
"""A command, and what its refusal says."""


@pytest.mark.parametrize("line", REFUSALS.strip().splitlines())
def test_what_is_refused(cluster, racks, plan, line):
    command, words = line.split(" | ")
    files = {"CLUSTER": cluster, "RACKS": racks, "PLAN": plan,
             "BENCH": ROOT / "bench_data" / "describe.txt"}
    lexer = shlex.shlex(command, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    found = run(*(files.get(arg, arg) for arg in lexer), code=2)
    assert found.stdout == ""
    assert "Error: " in found.stderr
    assert words in " ".join(found.stderr.split())


@pytest.mark.parametrize("args", [("show", ""), ("reassign", "{}", "--plan", "")])
def test_an_empty_name_is_no_input(cluster, args):
    """It is no name for the current folder."""
    assert "name of the" in run(*(arg.format(cluster) for arg in args), code=3).stderr
