package org.apache.kafka.controller;

import org.apache.kafka.common.utils.Time;

import java.util.function.Supplier;

/** A clock that an event moves. */
final class LockstepClock implements Time {
    private long nowMs = 1_000_000L;

    @Override public long milliseconds() { return nowMs; }

    @Override public long nanoseconds() { return nowMs * 1_000_000L; }

    @Override public void sleep(long ms) { nowMs += ms; }

    @Override public void waitObject(Object obj, Supplier<Boolean> condition, long deadlineMs) {
        throw new UnsupportedOperationException();
    }
}
