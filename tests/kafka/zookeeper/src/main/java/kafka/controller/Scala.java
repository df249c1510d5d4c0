package kafka.controller;

import scala.collection.JavaConverters;

import java.util.List;
import java.util.Map;
import java.util.Set;

/** Collections of Java and of Scala 2.12 and 2.13. */
final class Scala {
    private Scala() { }

    static <T> List<T> list(scala.collection.Seq<T> values) { return JavaConverters.seqAsJavaList(values); }

    static <T> scala.collection.Seq<T> seq(List<T> values) { return JavaConverters.asScalaBuffer(values); }

    static <T> Set<T> set(scala.collection.Set<T> values) { return JavaConverters.setAsJavaSet(values); }

    static <T> scala.collection.mutable.Set<T> scalaSet(Set<T> values) { return JavaConverters.asScalaSet(values); }

    static <K, V> Map<K, V> map(scala.collection.Map<K, V> values) { return JavaConverters.mapAsJavaMap(values); }

    static <K, V> scala.collection.mutable.Map<K, V> scalaMap(Map<K, V> values) {
        return JavaConverters.mapAsScalaMap(values);
    }
}
