package kafka.controller;

import kafka.zookeeper.AsyncRequest;
import kafka.zookeeper.AsyncResponse;
import kafka.zookeeper.CheckOp;
import kafka.zookeeper.CreateOp;
import kafka.zookeeper.CreateRequest;
import kafka.zookeeper.CreateResponse;
import kafka.zookeeper.DeleteOp;
import kafka.zookeeper.DeleteRequest;
import kafka.zookeeper.DeleteResponse;
import kafka.zookeeper.ExistsRequest;
import kafka.zookeeper.ExistsResponse;
import kafka.zookeeper.GetChildrenRequest;
import kafka.zookeeper.GetChildrenResponse;
import kafka.zookeeper.GetDataRequest;
import kafka.zookeeper.GetDataResponse;
import kafka.zookeeper.MultiRequest;
import kafka.zookeeper.MultiResponse;
import kafka.zookeeper.ResponseMetadata;
import kafka.zookeeper.SetDataOp;
import kafka.zookeeper.SetDataRequest;
import kafka.zookeeper.SetDataResponse;
import kafka.zookeeper.StateChangeHandler;
import kafka.zookeeper.ZNodeChangeHandler;
import kafka.zookeeper.ZNodeChildChangeHandler;
import kafka.zookeeper.ZkOp;
import kafka.zookeeper.ZkOpResult;

import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.data.Stat;

import sun.reflect.ReflectionFactory;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;

/**
 * ZooKeeper's nodes in memory. Kafka's own KafkaZkClient asks it: everything above the protocol is Kafka's. It has no
 * watches, since the driver gives the controller its events, and one session that never ends.
 */
class MemoryZooKeeper extends UnconnectedClient {
    private static final String TOPICS = "/brokers/topics/";
    private static final ResponseMetadata NO_TIME = new ResponseMetadata(0, 0);

    /** One node. */
    static final class Node {
        byte[] data;
        int version;
        long created = 1; // Kafka takes a node whose numbers are all zero for one that is not there
        int sequence;
        final TreeSet<String> children = new TreeSet<>();

        Stat stat() {
            Stat stat = new Stat();
            stat.setVersion(version);
            stat.setCzxid(created);
            return stat;
        }
    }

    private Map<String, Node> nodes;
    private boolean movedAtOther;

    /** Makes an instance without its constructor, which would connect to a server. */
    static MemoryZooKeeper create() throws ReflectiveOperationException {
        MemoryZooKeeper client = (MemoryZooKeeper) ReflectionFactory.getReflectionFactory()
            .newConstructorForSerialization(MemoryZooKeeper.class, Object.class.getConstructor()).newInstance();
        client.nodes = new HashMap<>();
        client.nodes.put("", new Node());
        return client;
    }

    // ------------------------------------------------------------------ what the driver does, as others would

    Node node(String path) { return nodes.get(path); }

    /** Writes a node and the nodes above it; one that is there keeps its version. */
    Node put(String path, byte[] data) {
        Node node = nodes.get(path);
        if (node == null) {
            String parent = path.substring(0, path.lastIndexOf('/'));
            if (!nodes.containsKey(parent)) put(parent, null);
            node = add(path, data);
        }
        node.data = data;
        return node;
    }

    /** Removes a node and all below it. */
    void remove(String path) {
        Node node = nodes.get(path);
        if (node == null) return;
        for (String child : new ArrayList<>(node.children)) remove(path + "/" + child);
        drop(path);
    }

    /** Whether the controller, since this was last asked, found its epoch changed at what is no write to a topic. */
    boolean takeMovedAtOther() {
        boolean moved = movedAtOther;
        movedAtOther = false;
        return moved;
    }

    /** The controller found it changed at the node of a queued topic, which it wanted to write back. */
    void noteMovedAtOther() {
        movedAtOther = true;
    }

    List<String> children(String path) {
        Node node = nodes.get(path);
        return node == null ? List.of() : new ArrayList<>(node.children);
    }

    private Node add(String path, byte[] data) {
        Node node = new Node();
        node.data = data;
        nodes.put(path, node);
        int slash = path.lastIndexOf('/');
        nodes.get(path.substring(0, slash)).children.add(path.substring(slash + 1));
        return node;
    }

    private void drop(String path) {
        nodes.remove(path);
        int slash = path.lastIndexOf('/');
        nodes.get(path.substring(0, slash)).children.remove(path.substring(slash + 1));
    }

    // ------------------------------------------------------------------------------- what Kafka's client asks

    @Override
    @SuppressWarnings({"unchecked", "rawtypes"})
    public scala.collection.Seq handleRequests(scala.collection.Seq requests) {
        List<AsyncResponse> responses = new ArrayList<>();
        for (Object request : Scala.list((scala.collection.Seq<Object>) requests))
            responses.add(answer((AsyncRequest) request));
        return Scala.seq(responses);
    }

    private AsyncResponse answer(AsyncRequest request) {
        if (request instanceof GetDataRequest) {
            Node node = nodes.get(request.path());
            return node == null
                ? new GetDataResponse(Code.NONODE, request.path(), request.ctx(), null, null, NO_TIME)
                : new GetDataResponse(Code.OK, request.path(), request.ctx(), node.data, node.stat(), NO_TIME);
        }
        if (request instanceof ExistsRequest) {
            Node node = nodes.get(request.path());
            return new ExistsResponse(node == null ? Code.NONODE : Code.OK, request.path(), request.ctx(),
                node == null ? null : node.stat(), NO_TIME);
        }
        if (request instanceof GetChildrenRequest) {
            Node node = nodes.get(request.path());
            return new GetChildrenResponse(node == null ? Code.NONODE : Code.OK, request.path(), request.ctx(),
                Scala.seq(children(request.path())), node == null ? null : node.stat(), NO_TIME);
        }
        if (request instanceof CreateRequest) {
            CreateRequest create = (CreateRequest) request;
            Code code = canCreate(create.path());
            String name = code == Code.OK ? create(create.path(), create.data(), create.createMode()) : null;
            return new CreateResponse(code, create.path(), create.ctx(), name, NO_TIME);
        }
        if (request instanceof SetDataRequest) {
            SetDataRequest set = (SetDataRequest) request;
            Code code = canSet(set.path(), set.version());
            Stat stat = code == Code.OK ? set(set.path(), set.data()) : null;
            return new SetDataResponse(code, set.path(), set.ctx(), stat, NO_TIME);
        }
        if (request instanceof DeleteRequest) {
            DeleteRequest delete = (DeleteRequest) request;
            Code code = canDelete(delete.path(), delete.version());
            if (code == Code.OK) drop(delete.path());
            return new DeleteResponse(code, delete.path(), delete.ctx(), NO_TIME);
        }
        if (request instanceof MultiRequest) return multi((MultiRequest) request);
        throw new UnsupportedOperationException("the mock of ZooKeeper does not know " + request);
    }

    /** All operations or none; one that fails makes those before it OK and those after it RUNTIMEINCONSISTENCY. */
    private AsyncResponse multi(MultiRequest request) {
        List<ZkOp> operations = Scala.list(request.zkOps());
        Code failure = Code.OK;
        int failed = operations.size();
        for (int i = 0; i < operations.size() && failure == Code.OK; i++) {
            failure = check(operations.get(i));
            if (failure != Code.OK) failed = i;
        }
        if (failed == 0 && operations.get(0) instanceof CheckOp) noteMoved(operations.get(1));
        List<ZkOpResult> results = new ArrayList<>();
        for (int i = 0; i < operations.size(); i++) {
            ZkOp operation = operations.get(i);
            if (failure == Code.OK) {
                results.add(new ZkOpResult(operation, apply(operation)));
            } else {
                Code code = i < failed ? Code.OK : i == failed ? failure : Code.RUNTIMEINCONSISTENCY;
                results.add(new ZkOpResult(operation, new OpResult.ErrorResult(code.intValue())));
            }
        }
        return new MultiResponse(failure, null, request.ctx(), Scala.seq(results), NO_TIME);
    }

    /** A record or an assignment is written below its topic; markers, notifications and topics are removed. */
    private void noteMoved(ZkOp refused) {
        boolean isWrite = refused instanceof CreateOp && ((CreateOp) refused).path().startsWith(TOPICS)
            || refused instanceof SetDataOp && ((SetDataOp) refused).path().startsWith(TOPICS);
        if (!isWrite) movedAtOther = true;
    }

    /** Operations of one request are about different nodes, so each can be checked before any is done. */
    private Code check(ZkOp operation) {
        if (operation instanceof CheckOp) {
            CheckOp check = (CheckOp) operation;
            return canSet(check.path(), check.version());
        }
        if (operation instanceof CreateOp) return canCreate(((CreateOp) operation).path());
        if (operation instanceof SetDataOp) {
            SetDataOp set = (SetDataOp) operation;
            return canSet(set.path(), set.version());
        }
        DeleteOp delete = (DeleteOp) operation;
        return canDelete(delete.path(), delete.version());
    }

    private OpResult apply(ZkOp operation) {
        if (operation instanceof CheckOp) return new OpResult.CheckResult();
        if (operation instanceof CreateOp) {
            CreateOp create = (CreateOp) operation;
            return new OpResult.CreateResult(create(create.path(), create.data(), create.createMode()));
        }
        if (operation instanceof SetDataOp) {
            SetDataOp set = (SetDataOp) operation;
            return new OpResult.SetDataResult(set(set.path(), set.data()));
        }
        drop(((DeleteOp) operation).path());
        return new OpResult.DeleteResult();
    }

    private Code canCreate(String path) {
        if (!nodes.containsKey(path.substring(0, path.lastIndexOf('/')))) return Code.NONODE;
        return nodes.containsKey(path) ? Code.NODEEXISTS : Code.OK;
    }

    private Code canSet(String path, int version) {
        Node node = nodes.get(path);
        if (node == null) return Code.NONODE;
        return version == -1 || version == node.version ? Code.OK : Code.BADVERSION;
    }

    private Code canDelete(String path, int version) {
        Code code = canSet(path, version);
        return code == Code.OK && !nodes.get(path).children.isEmpty() ? Code.NOTEMPTY : code;
    }

    private String create(String path, byte[] data, CreateMode mode) {
        String name = path;
        if (mode.isSequential()) {
            Node parent = nodes.get(path.substring(0, path.lastIndexOf('/')));
            name = path + String.format("%010d", parent.sequence++);
        }
        add(name, data);
        return name;
    }

    private Stat set(String path, byte[] data) {
        Node node = nodes.get(path);
        node.data = data;
        node.version++;
        return node.stat();
    }

    @Override public void registerZNodeChangeHandler(ZNodeChangeHandler handler) { }

    @Override public void unregisterZNodeChangeHandler(String path) { }

    @Override public void registerZNodeChildChangeHandler(ZNodeChildChangeHandler handler) { }

    @Override public void unregisterZNodeChildChangeHandler(String path) { }

    @Override public void registerStateChangeHandler(StateChangeHandler handler) { }

    @Override public void unregisterStateChangeHandler(String name) { }

    @Override public long sessionId() { return 1; }

    @Override public void waitUntilConnected() { }

    @Override public void close() { }
}
