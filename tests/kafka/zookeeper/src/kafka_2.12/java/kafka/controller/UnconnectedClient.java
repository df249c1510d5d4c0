package kafka.controller;

import kafka.zookeeper.ZooKeeperClient;

import org.apache.kafka.common.utils.Time;

/** A client whose constructor, which connects to a server, is never called: `MemoryZooKeeper.create`. */
abstract class UnconnectedClient extends ZooKeeperClient {
    UnconnectedClient() {
        super("", 0, 0, 0, Time.SYSTEM, "", "");
    }
}
