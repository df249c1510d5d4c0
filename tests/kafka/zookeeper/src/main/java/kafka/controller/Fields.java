package kafka.controller;

import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.Map;

/** Private fields of Kafka's classes. */
final class Fields {
    private static final Map<String, Field> FOUND = new HashMap<>();

    private Fields() { }

    private static Field find(Class<?> type, String name) throws NoSuchFieldException {
        Field found = FOUND.get(type.getName() + "." + name);
        if (found == null) {
            found = type.getDeclaredField(name);
            found.setAccessible(true);
            FOUND.put(type.getName() + "." + name, found);
        }
        return found;
    }

    static Object get(Object target, String name) throws ReflectiveOperationException {
        return find(target.getClass(), name).get(target);
    }

    static void set(Object target, String name, Object value) throws ReflectiveOperationException {
        find(target.getClass(), name).set(target, value);
    }
}
