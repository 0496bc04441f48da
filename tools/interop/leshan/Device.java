// LwM2M device on Leshan: `Device psk|mutual CREDENTIALS ADDRESS:PORT`. Registers at the server and
// prints the results; see ../README.md.

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.eclipse.leshan.client.LeshanClient;
import org.eclipse.leshan.client.LeshanClientBuilder;
import org.eclipse.leshan.client.object.Security;
import org.eclipse.leshan.client.observer.LwM2mClientObserverAdapter;
import org.eclipse.leshan.client.resource.ObjectsInitializer;
import org.eclipse.leshan.client.servers.LwM2mServer;
import org.eclipse.leshan.core.LwM2mId;
import org.eclipse.leshan.core.ResponseCode;
import org.eclipse.leshan.core.model.ObjectModel;
import org.eclipse.leshan.core.request.DeregisterRequest;
import org.eclipse.leshan.core.request.RegisterRequest;
import org.eclipse.leshan.core.response.ReadResponse;
import org.eclipse.leshan.transport.californium.client.endpoint.CaliforniumClientEndpointsProvider;
import org.eclipse.leshan.transport.californium.client.endpoint.coaps.CoapsClientProtocolProvider;

public final class Device {
    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    /** Object 3, with a battery level that rises. */
    public static final class Battery extends org.eclipse.leshan.client.object.Device {
        static final int LEVEL = 9;
        final AtomicLong level = new AtomicLong();

        public Battery() {
            super("Leshan", "interop", "1");
        }

        @Override
        public ReadResponse read(LwM2mServer server, int resource) {
            return resource == LEVEL ? ReadResponse.success(resource, level.get()) : super.read(server, resource);
        }

        @Override
        public List<Integer> getAvailableResourceIds(ObjectModel model) {
            List<Integer> ids = new ArrayList<>(super.getAvailableResourceIds(model));
            ids.add(LEVEL);
            return ids;
        }
    }

    static final class Registrations extends LwM2mClientObserverAdapter {
        @Override
        public void onRegistrationSuccess(LwM2mServer server, RegisterRequest request, String id) {
            say("registered " + id);
        }

        @Override
        public void onRegistrationFailure(
                LwM2mServer server, RegisterRequest request, ResponseCode code, String message, Exception cause) {
            say("failed " + code + " " + message + " " + cause);
        }

        @Override
        public void onRegistrationTimeout(LwM2mServer server, RegisterRequest request) {
            say("failed timeout");
        }

        @Override
        public void onDeregistrationSuccess(LwM2mServer server, DeregisterRequest request) {
            say("deregistered");
        }
    }

    public static void main(String[] arguments) throws Exception {
        Credentials credentials = new Credentials(arguments[1]);
        String uri = "coaps://" + arguments[2], name = "client";
        Security security;
        if (arguments[0].equals("psk")) {
            String[] psk = credentials.psk();
            name = psk[0];
            security = Security.psk(uri, 123, psk[0].getBytes(), psk[1].getBytes());
        } else {
            security = Security.x509(uri, 123, credentials.certificate("client").getEncoded(), credentials.key("client").getEncoded(),
                    credentials.certificate("server").getEncoded());
        }
        ObjectsInitializer objects = new ObjectsInitializer();
        Battery battery = new Battery();
        objects.setInstancesForObject(LwM2mId.SECURITY, security);
        objects.setInstancesForObject(LwM2mId.SERVER, new org.eclipse.leshan.client.object.Server(123, 300));
        objects.setInstancesForObject(LwM2mId.DEVICE, battery);
        var endpoints = new CaliforniumClientEndpointsProvider.Builder(new CoapsClientProtocolProvider());
        LeshanClient client = new LeshanClientBuilder(name).setObjects(objects.create(LwM2mId.SECURITY, LwM2mId.SERVER, LwM2mId.DEVICE))
                .setEndpointsProviders(endpoints.build()).build();
        client.addObserver(new Registrations());
        client.start();
        Executors.newSingleThreadScheduledExecutor().scheduleAtFixedRate(() -> {
            battery.level.incrementAndGet();
            battery.fireResourceChange(Battery.LEVEL);
        }, 500, 500, TimeUnit.MILLISECONDS);
        // Ends with its standard input.
        while (System.in.read() >= 0) {}
        client.destroy(true);
        System.exit(0);
    }
}
