"""Running clusters: what is asked, what the answers become, and what is said where none comes."""

import ssl
import uuid

import pytest

import kfast
from kfast.errors import ArgumentError, InputError
from kfast.io.live.admin_answers import tables_of_answers
from kfast.io.live.client_properties import client_arguments, parse_properties

kafka = pytest.importorskip("kafka", reason="kafka-python is not installed")
from kafka import errors  # noqa: E402
from kafka.structs import TopicPartition  # noqa: E402

from kfast.io.live import kafka_admin  # noqa: E402
from tests.support.cli_run import run, run_process  # noqa: E402
from tests.support.kafka_server import DESCRIBE_CLUSTER, PAGED, KafkaServer  # noqa: E402


def partition(number, leader=1, replicas=(1, 2, 3), isr=(1, 2, 3), **more):
    return {
        "error_code": 0, "partition_index": number, "leader_id": leader, "leader_epoch": 4,
        "replica_nodes": [*replicas], "isr_nodes": [*isr], "offline_replicas": [], **more,
    }


def topic(name, *partitions, **more):
    return {"error_code": 0, "name": name, "partitions": [*partitions], **more}


def setting(value, source, *synonyms):
    return {"value": value, "config_source": source, "synonyms": [
        {"name": name, "value": of, "source": kind} for name, of, kind in synonyms
    ]}


BROKERS = [{"broker_id": n, "rack": f"r{n}", "is_fenced": n == 3} for n in (1, 2, 3)]
FEATURES = {
    "metadata.version": {"supported": (7, 27), "finalized": (25, 25)},
    "eligible.leader.replicas.version": {"supported": (0, 1), "finalized": (1, 1)},
    "kraft.version": {"supported": (0, 1)},
}
SETTINGS = {
    "min.insync.replicas": setting(
        "2", "DYNAMIC_DEFAULT_BROKER_CONFIG",
        ("min.insync.replicas", "2", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
        ("min.insync.replicas", "1", "DEFAULT_CONFIG"),
    ),
    "unclean.leader.election.enable": setting(
        "false", "DEFAULT_CONFIG", ("unclean.leader.election.enable", "false", "DEFAULT_CONFIG")
    ),
}


class Admin:
    """What `KafkaAdminClient` would answer; a value that is an exception is raised."""

    def __init__(self, **answers):
        self.calls = []
        self.answers = {
            "describe_cluster": {"brokers": BROKERS, "controller_id": 2},
            "describe_topic_partitions": [
                {"topics": [topic("a", partition(0), topic_id=uuid.UUID(int=7))],
                 "next_cursor": {"topic_name": "a", "partition_index": 1}},
                {"topics": [topic("a", partition(1, -1, isr=(), eligible_leader_replicas=[3],
                                                 last_known_elr=None)),
                            topic("b", partition(0, 2, (2, 1, 3), (2, 1)))],
                 "next_cursor": None},
            ],
            "describe_topics": [topic("a", partition(1), partition(0))],
            "describe_configs": {"topic": {"retention.ms": setting("5", "DYNAMIC_TOPIC_CONFIG")},
                                 "broker": SETTINGS},
            "list_partition_reassignments": {TopicPartition("b", 0): {
                "replicas": [2, 1, 3], "adding_replicas": [2], "removing_replicas": [3]}},
            "describe_features": FEATURES,
            "describe_metadata_quorum": {"topics": [{"partitions": [{"leader_id": 1}]}]},
            **answers,
        }

    def __getattr__(self, name):
        if name not in self.answers and name != "get_broker_version_data":
            raise AttributeError(name)

        def answer(*arguments, **named):
            self.calls.append(name)
            value = self.answers.get(name)
            if isinstance(value, Exception):
                raise value
            if name == "get_broker_version_data":
                return type("Versions", (), {"broker_version": (3, 9)})
            if name == "describe_topic_partitions":
                return value[self.calls.count(name) - 1]
            if name == "describe_configs" and value:
                return _settings(value, *arguments)
            return value

        return answer


def _settings(value, resources):
    kind = resources[0].resource_type.name.lower()
    return {kind: {resource.name: value[kind] for resource in resources}}


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(kafka_admin, "_PAUSE_S", 0)


def test_pages_of_partitions_make_one_cluster():
    admin = Admin()
    state = kfast.read(admin)
    assert admin.calls.count("describe_topic_partitions") == 2
    assert state.controller == "kraft-4.1"
    assert state.quorum.elr_on
    tables = state.to_tables()
    rows = tables.partitions.to_pylist()
    assert [(row["topic"], row["partition"], row["leader"], row["isr"]) for row in rows] == [
        ("a", 0, 1, [1, 2, 3]), ("a", 1, -1, []), ("b", 0, 2, [2, 1]),
    ]
    assert rows[1]["elr"] == [3]
    assert (rows[2]["adding"], rows[2]["removing"]) == ([2], [3])
    assert rows[0]["leader_epoch"] == 4
    brokers = tables.brokers.to_pylist()
    assert [(row["rack"], row["fenced"]) for row in brokers] == [
        ("r1", False), ("r2", False), ("r3", True)]
    assert tables.topics["topic_id"].to_pylist() == ["AAAAAAAAAAAAAAAAAAAABw", None]


def test_configurations_count_as_the_controller_keeps_them():
    state = kfast.read(Admin())
    assert state.default_min_insync_replicas == 2
    assert not any("is not given" in note for note in state.assumptions)
    assert state.quorum.configurations[2, "a"] == {"retention.ms": "5"}
    assert state.quorum.configurations[4, ""] == {"min.insync.replicas": "2"}
    assert state.controller_id == 1


def test_a_cluster_in_zookeeper_mode_is_one_without_a_metadata_version():
    admin = Admin(
        describe_features={}, describe_metadata_quorum=errors.IncompatibleBrokerVersion("old"),
        describe_topic_partitions=errors.IncompatibleBrokerVersion("old"),
        describe_cluster={"brokers": [{"broker_id": 1, "rack": None}, {"broker_id": 2}],
                          "controller_id": 2},
        list_partition_reassignments={},
    )
    state = kfast.read(admin)
    assert (state.controller, state.controller_id) == ("zk-3.9", 2)
    assert state.default_min_insync_replicas == 2
    assert state.log_settings["a"] == {"retention.ms": "5"}
    assert state.to_tables().brokers["registered"].to_pylist() == [True, True, False]
    assert state.to_tables().partitions["partition"].to_pylist() == [0, 1]


@pytest.mark.parametrize(("method", "what"), [
    ("describe_cluster", "brokers"), ("describe_topic_partitions", "topics"),
])
def test_what_cannot_be_done_without_is_an_error_by_kafkas_name(method, what, quick):
    for error, reason in (
        (errors.ClusterAuthorizationFailedError("long text"), "CLUSTER_AUTHORIZATION_FAILED"),
        (errors.RequestTimedOutError("after 5 ms"), "REQUEST_TIMED_OUT"),
        (errors.KafkaConnectionError("gone"), "KafkaConnectionError (gone)"),
    ):
        with pytest.raises(InputError) as caught:
            kfast.read(Admin(**{method: error}))
        assert str(caught.value) == f"Admin: {what}: {reason}"


@pytest.mark.parametrize(("method", "what"), [
    ("list_partition_reassignments", "reassignments"),
    ("describe_metadata_quorum", "the controllers' quorum"),
    ("describe_configs", "configurations of topics a, b"),
])
def test_what_can_be_done_without_is_a_note(method, what):
    state = kfast.read(Admin(**{method: errors.ClusterAuthorizationFailedError()}))
    assert f"Admin: {what} not read: CLUSTER_AUTHORIZATION_FAILED" in state.assumptions


def test_a_topic_whose_configurations_are_refused_is_named():
    state = kfast.read(Admin(describe_configs={"topic": {}, "broker": SETTINGS}))
    note = next(note for note in state.assumptions if "TOPIC_AUTHORIZATION_FAILED" in note)
    assert note.startswith("Admin: configurations of topics a, b not read: this user may not")


def test_a_broker_that_goes_away_is_no_reason_to_give_up(quick):
    class Restless(Admin):
        def describe_cluster(self):
            self.calls.append("describe_cluster")
            if self.calls.count("describe_cluster") < 3:
                raise errors.KafkaConnectionError("gone")
            return self.answers["describe_cluster"]

    assert kfast.read(Restless()).n_brokers == 3


def test_a_broker_that_is_listed_but_gone_is_not_needed(quick):
    class Halved(Admin):
        def get_broker_version_data(self, broker):
            if broker == 1:
                raise errors.UnknownBrokerIdError(1)
            return type("Versions", (), {"broker_version": (4, 1)})

    notes = kfast.read(Halved()).assumptions
    assert "Halved: API versions of brokers 1 not read: UnknownBrokerIdError (1)" in notes


def test_a_page_that_leads_nowhere_is_an_error():
    cursor = {"topic_name": "a", "partition_index": 0}
    pages = [{"topics": [], "next_cursor": cursor}] * 9
    with pytest.raises(InputError, match="a page ends where it begins"):
        kfast.read(Admin(describe_topic_partitions=pages))


@pytest.mark.parametrize(("topics", "message"), [
    ([topic("a", error_code=29), topic("b", partition(0))], "TOPIC_AUTHORIZATION_FAILED for a:"),
    ([topic("a", partition(0, error_code=72))], "LISTENER_NOT_FOUND for a-0:"),
    ([topic("a", partition(0, error_code=-77))], "error -77 for a-0:"),
    ([], "shows no topic"),
    ([topic("a", {"partition_index": 0})], "no number or no replicas"),
    ([{"partitions": []}], "has no name"),
    ([topic("a", partition(0, "x"))], r"Expected `int | null`, got `str`"),
    ([topic("a", partition(0), topic_id="?")], "is no id of a topic"),
])
def test_a_cluster_in_part_or_of_another_shape_is_refused(topics, message):
    answers = {"describe_cluster": {"brokers": BROKERS}, "describe_topics": topics}
    with pytest.raises(InputError) as caught:
        tables_of_answers("c", answers)
    assert message in str(caught.value)


def test_a_topic_that_is_deleted_meanwhile_is_left_out():
    answers = {
        "describe_cluster": {"brokers": BROKERS},
        "describe_topics": [topic("a", error_code=3), topic("b", partition(0))],
    }
    tables = tables_of_answers("c", answers)
    assert tables.topics["topic"].to_pylist() == ["b"]
    assert "c: deleted while they were read, and left out: a" in tables.notes


def test_answers_of_aiokafka_are_taken_by_the_names_of_its_methods():
    state = kfast.read({
        "describe_cluster": {"brokers": [{"node_id": 1, "rack": "x"}, {"node_id": 2}]},
        "describe_topics": [{"error_code": 0, "topic": "t", "partitions": [
            {"partition": 0, "leader": 1, "replicas": [1, 2], "isr": [1], "error_code": 0,
             "offline_replicas": [2]},
        ]}],
    })
    row = state.to_tables().partitions.to_pylist()[0]
    assert (row["leader"], row["replicas"], row["isr"]) == (1, [1, 2], [1])
    with pytest.raises(InputError, match="unknown field `topics`"):
        kfast.read({"topics": []})


def test_an_asynchronous_client_says_what_to_await():
    class Asynchronous:
        async def describe_cluster(self):
            raise AssertionError

    with pytest.raises(ArgumentError, match=r"await client\.describe_topics"):
        kfast.read(Asynchronous())


def test_values_of_brokers_that_differ_are_named():
    admin = Admin()
    calls = iter("23")
    other = admin.answers["describe_configs"]["broker"]["min.insync.replicas"]

    class Differing(Admin):
        def describe_configs(self, resources, **_):
            if resources[0].resource_type.name == "TOPIC":
                return _settings(self.answers["describe_configs"], resources)
            own = {**other, "value": next(calls)}
            return {"broker": {resources[0].name: {"min.insync.replicas": own}}}

    notes = kfast.read(Differing()).assumptions
    assert any("min.insync.replicas differs between brokers: 2 (broker" in note for note in notes)


# --- over a socket ---


@pytest.mark.parametrize("paged", [True, False])
def test_a_server_is_read_whole(paged):
    with KafkaServer(50, 100, paged=paged) as server:
        state = kfast.read(server.address)
    assert (state.n_topics, state.n_partitions, state.n_brokers) == (50, 5000, 3)
    assert state.to_tables().topics["min_insync_replicas"].unique().to_pylist() == [2]
    assert server.n_requests.get(PAGED, 0) == (3 if paged else 0)
    assert state.controller == "kraft-4.1"
    assert any("reassignments not read: CLUSTER_AUTHORIZATION_FAILED" in note
               for note in state.assumptions)


def test_a_server_that_is_silent_has_run_out_of_time(tmp_path):
    """The first question is not answered in time; others of its connection wait behind it.

    In a process of its own: kafka-python leaves a socket open after a timeout.
    """
    config = tmp_path / "client.properties"
    config.write_text("request.timeout.ms=2000")
    with KafkaServer(1, 1, delays={DESCRIBE_CLUSTER: 4}) as server:
        done = run_process("show", server.address, "--command-config", config)
    assert done.returncode == 3
    assert "brokers: REQUEST_TIMED_OUT" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("address", "message"), [
    ("kafka://", "no host and port"),
    ("kafka://localhost:99999", "no host and port"),
    ("kafka://localhost/x", "has a path"),
    ("kafka://a b", "no host and port"),
])
def test_an_address_of_another_form_is_refused(address, message):
    with pytest.raises(ArgumentError, match=message):
        kfast.read(address)


def test_an_address_where_nobody_listens_is_named_with_the_reason():
    with pytest.raises(InputError, match=r"127\.0\.0\.1:1: Connection refused"):
        kfast.read("kafka://127.0.0.1:1")


def test_the_command_reads_a_cluster_and_saves_it(tmp_path):
    with KafkaServer(2, 3) as server:
        run("show", server.address)
        run("save", server.address, "-o", tmp_path / "c.arrow")
    assert kfast.read(tmp_path / "c.arrow").n_partitions == 6
    assert "Connection refused" in run("show", server.address, code=3).output


def test_sizes_are_saved_as_loads_are_read(tmp_path):
    sizes = tmp_path / "sizes.json"
    with KafkaServer(2, 3) as server:
        run("save", server.address, "-o", tmp_path / "c.arrow", "--sizes", sizes)
    (load,) = kfast.read_load(sizes)
    assert load.rows["disk_bytes"].to_pylist() == [1 << 20] * 6
    assert "KAFKA_STORAGE_ERROR" in load.assumptions[0]
    refused = run("save", tmp_path / "c.arrow", "-o", "-", "--format", "describe",
                  "--sizes", sizes, code=2)
    assert "cannot be asked for sizes" in refused.stderr


def test_a_moment_or_properties_need_what_has_them(tmp_path):
    with pytest.raises(ArgumentError, match="it shows one moment only"):
        kfast.read(Admin(), at=3)
    with pytest.raises(ArgumentError, match="is no cluster that runs"):
        kfast.read(tmp_path / "d.txt", command_config=("p", b""))


# --- properties of Kafka's clients ---


def test_properties_are_read_as_java_reads_them():
    text = "# no\n! no\na=1\nb : x=y \nc d\\\n   e\n key\\ two = caf\\u00e9\\n\nf\n"
    assert parse_properties(text) == {
        "a": "1", "b": "x=y", "c": "de", "key two": "café", "f": "",
    } | {"key two": "café\n".rstrip()}


def test_a_user_and_a_password_come_from_the_line_of_jaas():
    arguments, notes = client_arguments(("p", b"""
security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="ann" password="a\\\\"b c;";
linger.ms=5
"""))
    assert arguments == {
        "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "ann", "sasl_plain_password": 'a"b c;',
    }
    assert notes == ["p: not heeded: linger.ms"]


def test_tls_without_a_check_of_the_host_name():
    arguments, _ = client_arguments(
        ("p", b"security.protocol=SSL\nssl.endpoint.identification.algorithm=\n"))
    assert not arguments["ssl_context"].check_hostname
    assert arguments["ssl_context"].verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize(("text", "message"), [
    ("security.protocol=SSL\nssl.truststore.location=/t.jks", "a JKS store"),
    ("security.protocol=SSL\nssl.truststore.location=/no\nssl.truststore.type=PEM", "No such file"),
    ("security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER", "right is one of PLAIN"),
    ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", "no username or no password"),
    ("request.timeout.ms=soon", "whole number"),
    ("ssl.cipher.suites=x", "cannot be heeded"),
])
def test_properties_that_cannot_be_heeded_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        client_arguments(("p", text.encode()))
