package org.apache.kafka.controller;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/** Calls whose names or parameters differ between releases of Kafka. */
final class Releases {
    private static final Map<String, Optional<Method>> FOUND = new HashMap<>();

    private Releases() { }

    /** The method of this name that takes the most parameters, or null. */
    static Method find(Class<?> type, String name) {
        return FOUND.computeIfAbsent(type.getName() + "." + name,
            key -> Optional.ofNullable(search(type, name))).orElse(null);
    }

    private static Method search(Class<?> type, String name) {
        Method found = null;
        for (Method method : type.getDeclaredMethods()) {
            boolean longer = found == null || method.getParameterCount() > found.getParameterCount();
            if (method.getName().equals(name) && !method.isSynthetic() && longer) found = method;
        }
        if (found != null) found.setAccessible(true);
        return found;
    }

    /** The method of a manager that replays records of a kind, or null. */
    static Method findReplay(Class<?> manager, Class<?> record) {
        return FOUND.computeIfAbsent(manager.getName() + " replays " + record.getName(), key -> {
            for (Method method : manager.getMethods()) {
                boolean replays = method.getName().equals("replay");
                if (replays && method.getParameterTypes()[0] == record) return Optional.of(method);
            }
            return Optional.empty();
        }).orElse(null);
    }

    static boolean has(Object target, String name) { return find(target.getClass(), name) != null; }

    /** Calls a method: arguments that it does not take are left out, those that it takes beyond them are false. */
    static Object call(Object target, String name, Object... arguments) throws Exception {
        Class<?> type = target instanceof Class ? (Class<?>) target : target.getClass();
        Method method = find(type, name);
        if (method == null) throw new NoSuchMethodException(type.getSimpleName() + "." + name);
        Object[] fitted = new Object[method.getParameterCount()];
        for (int i = 0; i < fitted.length; i++) fitted[i] = i < arguments.length ? arguments[i] : (Object) false;
        try {
            return method.invoke(target instanceof Class ? null : target, fitted);
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof Exception) throw (Exception) e.getCause();
            throw e;
        }
    }

    /** The same, of a setter that older releases lack. */
    static void set(Object target, String name, Object argument) throws Exception {
        if (has(target, name)) call(target, name, argument);
    }
}
