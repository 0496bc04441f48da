// Californium client of `cargo xtask interop`; arguments, input and output: ../README.md.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.HexFormat;
import org.eclipse.californium.core.coap.BlockOption;
import org.eclipse.californium.core.coap.CoAP;
import org.eclipse.californium.core.coap.MessageObserverAdapter;
import org.eclipse.californium.core.coap.Option;
import org.eclipse.californium.core.coap.Request;
import org.eclipse.californium.core.coap.Response;
import org.eclipse.californium.core.coap.Token;
import org.eclipse.californium.core.coap.option.StandardOptionRegistry;
import org.eclipse.californium.core.config.CoapConfig;
import org.eclipse.californium.core.network.CoapEndpoint;
import org.eclipse.californium.core.CoapClient;
import org.eclipse.californium.elements.config.Configuration;

public final class Client {
    static final int BLOCK_SIZE = Integer.parseInt(System.getenv().getOrDefault("BLOCK_SIZE", "1024"));
    static CoapEndpoint endpoint;
    static Security security;
    /** The request whose resource is observed. */
    static Request observed;

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static void say(String what, Response response) {
        CoAP.ResponseCode code = response.getCode();
        say("%s %d.%02d %s".formatted(what, code.codeClass, code.codeDetail, HexFormat.of().formatHex(response.getPayload())));
    }

    /** Prints responses. */
    static final class Listener extends MessageObserverAdapter {
        @Override
        public void onResponse(Response response) {
            say("response", response);
        }

        @Override
        public void onTimeout() {
            say("failed timeout");
        }

        @Override
        public void onReject() {
            say("failed reset");
        }

        @Override
        public void onSendError(Throwable error) {
            say("failed " + error);
        }
    }

    static Request request(String reliability, String method, String uri) {
        var code = Arrays.stream(CoAP.Code.values()).filter(known -> known.name().equals(method.toUpperCase())).findFirst();
        Request request = new Request(code.orElseThrow(), reliability.equals("CON") ? CoAP.Type.CON : CoAP.Type.NON);
        request.setURI(uri);
        if (BLOCK_SIZE < 1024 && request.getCode() == CoAP.Code.GET) {
            request.getOptions().setBlock2(BlockOption.size2Szx(BLOCK_SIZE), false, 0);
        }
        return request;
    }

    static void add(Request request, String word) {
        String[] parts = word.split("[=:]", 3);
        switch (parts[0]) {
            case "payload" -> request.setPayload(HexFormat.of().parseHex(parts[1]));
            case "token" -> request.setToken(new Token(HexFormat.of().parseHex(parts[1])));
            case "option" -> {
                int number = Integer.parseInt(parts[1]);
                byte[] value = HexFormat.of().parseHex(parts[2]);
                var definition = StandardOptionRegistry.getDefaultOptionRegistry().getDefinitionByNumber(number);
                request.getOptions().addOption(definition == null ? new Option(number, value) : new Option(definition, value));
            }
            default -> throw new IllegalArgumentException(word);
        }
    }

    static void handle(String[] words) {
        switch (words[0]) {
            case "ping" -> {
                CoapClient client = new CoapClient(words[1]);
                client.setEndpoint(endpoint);
                say(client.ping(5000) ? "response pong" : "failed ping");
            }
            case "stop" -> {
                endpoint.cancelObservation(observed.getToken());
                if (words[1].equals("reset")) {
                    // A notification of a forgotten observation is answered with a Reset.
                    observed.cancel();
                    return;
                }
                Request cancellation = request("CON", "GET", observed.getURI());
                cancellation.setDestinationContext(observed.getDestinationContext());
                cancellation.setOptions(observed.getOptions());
                cancellation.setObserveCancel();
                cancellation.setToken(observed.getToken());
                cancellation.addMessageObserver(new Listener());
                cancellation.send(endpoint);
            }
            default -> {
                Request request = request(words[0], words[1], words[2]);
                Arrays.stream(words).skip(3).forEach(word -> add(request, word));
                request.addMessageObserver(new Listener());
                security.protect(request);
                if (request.isObserve()) {
                    observed = request;
                }
                request.send(endpoint);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Configuration configuration = Security.configuration();
        configuration.set(CoapConfig.MAX_RESOURCE_BODY_SIZE, 65536);
        configuration.set(CoapConfig.MAX_MESSAGE_SIZE, BLOCK_SIZE);
        configuration.set(CoapConfig.PREFERRED_BLOCK_SIZE, BLOCK_SIZE);
        security = new Security(arguments, true);
        endpoint = security.endpoint(configuration);
        // Also called for the first response, which the request's own listener prints.
        endpoint.addNotificationListener((about, response) -> {
            if (observed != null && about.getToken().equals(observed.getToken()) && observed.getResponse() != null) {
                say("notified", response);
            }
        });
        endpoint.start();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = input.readLine()) != null; ) {
            try {
                handle(line.split(" "));
            } catch (RuntimeException error) {
                say("failed " + error);
            }
        }
        System.exit(0);
    }
}
