// Californium server of `cargo xtask interop`; arguments and resources: ../README.md.

import static org.eclipse.californium.core.coap.CoAP.ResponseCode.*;

import java.net.Inet6Address;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.IntFunction;
import org.eclipse.californium.core.CoapResource;
import org.eclipse.californium.core.CoapServer;
import org.eclipse.californium.core.coap.CoAP.Type;
import org.eclipse.californium.core.coap.MediaTypeRegistry;
import org.eclipse.californium.core.coap.Response;
import org.eclipse.californium.core.config.CoapConfig;
import org.eclipse.californium.core.network.CoapEndpoint;
import org.eclipse.californium.core.server.resources.CoapExchange;
import org.eclipse.californium.elements.config.Configuration;

public final class Server {
    static final byte[] LARGE = "0123456789abcdef".repeat(125).getBytes(StandardCharsets.UTF_8);
    static final ScheduledExecutorService TIMER = Executors.newSingleThreadScheduledExecutor();

    /** A resource for GET or POST. */
    static class Plain extends CoapResource {
        Consumer<CoapExchange> get = exchange -> exchange.respond(METHOD_NOT_ALLOWED);
        Consumer<CoapExchange> post = exchange -> exchange.respond(METHOD_NOT_ALLOWED);

        Plain(String name) {
            super(name);
        }

        Plain get(Consumer<CoapExchange> get) {
            this.get = get;
            return this;
        }

        Plain post(Consumer<CoapExchange> post) {
            this.post = post;
            return this;
        }

        Plain attribute(String name, String... values) {
            for (String value : values) {
                getAttributes().addAttribute(name, value);
            }
            return this;
        }

        @Override
        public void handleGET(CoapExchange exchange) {
            get.accept(exchange);
        }

        @Override
        public void handlePOST(CoapExchange exchange) {
            post.accept(exchange);
        }
    }

    /** A document with its version as ETag. */
    static final class Document extends CoapResource {
        byte[] payload;
        int format = MediaTypeRegistry.TEXT_PLAIN;
        int version = 1;

        Document(String name, byte[] payload) {
            super(name);
            this.payload = payload;
        }

        Document ticking(Type type, IntFunction<byte[]> state) {
            setObservable(true);
            setObserveType(type);
            getAttributes().setObservable();
            int[] count = {0};
            TIMER.scheduleAtFixedRate(() -> {
                if (payload != null) {
                    payload = state.apply(++count[0]);
                    version++;
                    changed();
                }
            }, 1, 1, TimeUnit.SECONDS);
            return this;
        }

        private byte[] etag() {
            return new byte[] {(byte) version};
        }

        @Override
        public void handleGET(CoapExchange exchange) {
            boolean known = exchange.getRequestOptions().containsETag(etag());
            Response response = new Response(payload == null ? NOT_FOUND : known ? VALID : CONTENT);
            if (payload != null) {
                response.getOptions().addETag(etag());
                if (!known) {
                    response.setPayload(payload);
                    response.getOptions().setContentFormat(format);
                }
            }
            exchange.respond(response);
        }

        @Override
        public void handlePUT(CoapExchange exchange) {
            var options = exchange.getRequestOptions();
            boolean matches = payload != null && options.isIfMatch(etag());
            if (options.getIfMatchCount() > 0 && !matches || options.hasIfNoneMatch() && payload != null) {
                exchange.respond(PRECONDITION_FAILED);
                return;
            }
            var code = payload == null ? CREATED : CHANGED;
            payload = exchange.getRequestPayload();
            int former = format;
            format = options.hasContentFormat() ? options.getContentFormat() : MediaTypeRegistry.TEXT_PLAIN;
            version++;
            exchange.respond(code);
            if (format == former) {
                changed();
            } else {
                // Notifications keep the first Content-Format (RFC 7641 section 4.2).
                clearAndNotifyObserveRelations(NOT_ACCEPTABLE);
            }
        }

        @Override
        public void handleDELETE(CoapExchange exchange) {
            payload = null;
            exchange.respond(DELETED);
            clearAndNotifyObserveRelations(NOT_FOUND);
        }

        @Override
        public void handlePOST(CoapExchange exchange) {
            created(exchange);
        }
    }

    static void created(CoapExchange exchange) {
        exchange.setLocationPath("location1/location2/location3");
        exchange.respond(CREATED);
    }

    static void locationQuery(CoapExchange exchange) {
        exchange.setLocationQuery("first=1&second=2");
        exchange.respond(CREATED);
    }

    static void separate(CoapExchange exchange) {
        exchange.accept();
        TIMER.schedule(() -> exchange.respond(CONTENT, "separate", MediaTypeRegistry.TEXT_PLAIN), 1500, TimeUnit.MILLISECONDS);
    }

    static void format(CoapExchange exchange) {
        int accept = Math.max(0, exchange.getRequestOptions().getAccept());
        switch (accept) {
            case MediaTypeRegistry.TEXT_PLAIN -> exchange.respond(CONTENT, "hello", accept);
            case MediaTypeRegistry.APPLICATION_XML -> exchange.respond(CONTENT, "<text>hello</text>", accept);
            default -> exchange.respond(NOT_ACCEPTABLE);
        }
    }

    static Plain text(String name, String payload) {
        return new Plain(name).get(exchange -> exchange.respond(CONTENT, payload, MediaTypeRegistry.TEXT_PLAIN));
    }

    public static void main(String[] arguments) throws Exception {
        Configuration configuration = Security.configuration();
        // Like the other servers: bodies of at most 64 KiB, in blocks of 1024 bytes.
        configuration.set(CoapConfig.MAX_RESOURCE_BODY_SIZE, 65536);
        configuration.set(CoapConfig.MAX_MESSAGE_SIZE, 1024);
        configuration.set(CoapConfig.PREFERRED_BLOCK_SIZE, 1024);
        CoapServer server = new CoapServer(configuration);
        CoapEndpoint endpoint = new Security(arguments, false).endpoint(configuration);
        server.addEndpoint(endpoint);
        server.add(
                new Document("test", "hello".getBytes()),
                new Plain("separate").get(Server::separate),
                new CoapResource("seg1").add(new CoapResource("seg2").add(text("seg3", "seg3"))),
                new Plain("query").get(exchange -> exchange.respond(CONTENT, exchange.getRequestOptions().getUriQueryString(), 0)),
                new Plain("multi-format").get(Server::format),
                new Plain("location-query").post(Server::locationQuery),
                new Document("validate", "valid".getBytes()),
                new Document("create1", null),
                new Document("create2", null),
                new Document("create3", null),
                new Plain("large").get(exchange -> exchange.respond(CONTENT, LARGE, 0)),
                new Document("large-update", LARGE),
                new Plain("large-create").post(Server::created),
                new Plain("large-post").post(exchange -> exchange.respond(CHANGED, LARGE, 0)),
                text("link1", "link1").attribute("rt", "Type1").attribute("if", "If1").attribute("sz", "5"),
                text("link2", "link2").attribute("rt", "Type2").attribute("if", "If2"),
                text("link3", "link3").attribute("rt", "Type1", "Type2").attribute("if", "foo"),
                new Plain("path")
                        .get(exchange -> exchange.respond(CONTENT, "</path/sub1>,</path/sub2>,</path/sub3>", 40))
                        .attribute("ct", "40")
                        .add(text("sub1", "sub1"), text("sub2", "sub2"), text("sub3", "sub3")),
                new Document("obs", "tick".getBytes()).ticking(Type.CON, count -> ("tick " + count).getBytes()),
                new Document("obs-non", "tick".getBytes()).ticking(Type.NON, count -> ("tick " + count).getBytes()),
                new Document("obs-large", LARGE).ticking(Type.NON, count -> {
                    byte[] state = LARGE.clone();
                    state[0] = (byte) ('a' + count % 26);
                    return state;
                }));
        server.start();
        InetSocketAddress address = endpoint.getAddress();
        String host = address.getAddress() instanceof Inet6Address ? "[" + arguments[0] + "]" : arguments[0];
        System.out.println("listening " + host + ":" + address.getPort());
    }
}
