// LwM2M server on Leshan: `Server psk|mutual CREDENTIALS`. Reads and observes each device that
// registers, and prints the results; see ../README.md.

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.security.cert.X509Certificate;
import java.util.Collection;
import org.eclipse.californium.scandium.config.DtlsConfig;
import org.eclipse.californium.scandium.config.DtlsConfig.DtlsRole;
import org.eclipse.leshan.core.endpoint.Protocol;
import org.eclipse.leshan.core.node.LwM2mObjectInstance;
import org.eclipse.leshan.core.node.LwM2mResource;
import org.eclipse.leshan.core.observation.CompositeObservation;
import org.eclipse.leshan.core.observation.Observation;
import org.eclipse.leshan.core.observation.SingleObservation;
import org.eclipse.leshan.core.request.ObserveRequest;
import org.eclipse.leshan.core.request.ReadRequest;
import org.eclipse.leshan.core.response.ObserveCompositeResponse;
import org.eclipse.leshan.core.response.ObserveResponse;
import org.eclipse.leshan.core.response.ReadResponse;
import org.eclipse.leshan.server.LeshanServer;
import org.eclipse.leshan.server.LeshanServerBuilder;
import org.eclipse.leshan.server.observation.ObservationListener;
import org.eclipse.leshan.server.registration.Registration;
import org.eclipse.leshan.server.registration.RegistrationListener;
import org.eclipse.leshan.server.registration.RegistrationUpdate;
import org.eclipse.leshan.servers.security.InMemorySecurityStore;
import org.eclipse.leshan.servers.security.SecurityInfo;
import org.eclipse.leshan.transport.californium.server.endpoint.CaliforniumServerEndpointsProvider;
import org.eclipse.leshan.transport.californium.server.endpoint.coaps.CoapsServerProtocolProvider;

public final class Server {
    static LeshanServer server;

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static void manage(Registration registration) {
        try {
            ReadResponse read = server.send(registration, new ReadRequest(3, 0), 10_000);
            LwM2mObjectInstance device = (LwM2mObjectInstance) read.getContent();
            say("read " + device.getResource(0).getValue());
            ObserveResponse observed = server.send(registration, new ObserveRequest(3, 0, 9), 10_000);
            say("observed " + ((LwM2mResource) observed.getContent()).getValue());
        } catch (Exception error) {
            say("failed " + error);
        }
    }

    static final class Registrations implements RegistrationListener {
        @Override
        public void registered(Registration registration, Registration former, Collection<Observation> observations) {
            say("registered " + registration.getEndpoint());
            new Thread(() -> manage(registration)).start();
        }

        @Override
        public void updated(RegistrationUpdate update, Registration registration, Registration former) {
            say("updated " + registration.getEndpoint());
        }

        @Override
        public void unregistered(Registration registration, Collection<Observation> observations, boolean expired, Registration next) {
            say("deregistered " + registration.getEndpoint());
        }
    }

    static final class Observations implements ObservationListener {
        @Override
        public void newObservation(Observation observation, Registration registration) {}

        @Override
        public void cancelled(Observation observation) {}

        @Override
        public void onResponse(SingleObservation observation, Registration registration, ObserveResponse response) {
            say("notified " + ((LwM2mResource) response.getContent()).getValue());
        }

        @Override
        public void onResponse(CompositeObservation observation, Registration registration, ObserveCompositeResponse response) {}

        @Override
        public void onError(Observation observation, Registration registration, Exception error) {
            say("failed " + error);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Credentials credentials = new Credentials(arguments[1]);
        InMemorySecurityStore store = new InMemorySecurityStore();
        LeshanServerBuilder builder = new LeshanServerBuilder().setSecurityStore(store);
        if (arguments[0].equals("psk")) {
            String[] psk = credentials.psk();
            store.add(SecurityInfo.newPreSharedKeyInfo(psk[0], psk[0], psk[1].getBytes()));
        } else {
            // Leshan requires the certificate's common name as the endpoint name.
            store.add(SecurityInfo.newX509CertInfo("client"));
            builder.setPrivateKey(credentials.key("server"));
            builder.setCertificateChain(new X509Certificate[] {credentials.certificate("server")});
            builder.setTrustedCertificates(new X509Certificate[] {credentials.certificate("ca")});
        }
        var endpoints = new CaliforniumServerEndpointsProvider.Builder(
                // Devices open the sessions; the certificate may not be a client's.
                new CoapsServerProtocolProvider(dtls -> dtls.set(DtlsConfig.DTLS_ROLE, DtlsRole.SERVER_ONLY)));
        endpoints.addEndpoint(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), Protocol.COAPS);
        server = builder.setEndpointsProviders(endpoints.build()).build();
        server.getRegistrationService().addListener(new Registrations());
        server.getObservationService().addListener(new Observations());
        server.start();
        say("listening 127.0.0.1:" + server.getEndpoint(Protocol.COAPS).getURI().getPort());
        // Ends with its standard input.
        while (System.in.read() >= 0) {}
        System.exit(0);
    }
}
