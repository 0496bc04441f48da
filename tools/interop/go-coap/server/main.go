// go-coap server of `cargo xtask interop`; arguments and resources: ../../README.md.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"conche/interop/go-coap/credentials"
	dtlsServer "github.com/plgd-dev/go-coap/v3/dtls"
	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/mux"
	coapNet "github.com/plgd-dev/go-coap/v3/net"
	"github.com/plgd-dev/go-coap/v3/net/blockwise"
	"github.com/plgd-dev/go-coap/v3/options"
	"github.com/plgd-dev/go-coap/v3/udp"
)

var large = bytes.Repeat([]byte("0123456789abcdef"), 125)

// A document is for GET, PUT and DELETE, and observable if it has a type of notifications.
type document struct {
	mutex         sync.Mutex
	payload       []byte
	format        message.MediaType
	version       byte
	notifications message.Type
	observers     map[string]observer
}

type observer struct {
	connection mux.Conn
	token      message.Token
}

func respond(w mux.ResponseWriter, code codes.Code, format message.MediaType, payload []byte, opts ...message.Option) {
	var body *bytes.Reader
	if payload != nil {
		body = bytes.NewReader(payload)
	}
	var err error
	if body == nil {
		err = w.SetResponse(code, format, nil, opts...)
	} else {
		err = w.SetResponse(code, format, body, opts...)
	}
	if err != nil {
		log.Print(err)
	}
}

func etag(version byte) message.Option {
	return message.Option{ID: message.ETag, Value: []byte{version}}
}

func uintOption(id message.OptionID, value uint32) message.Option {
	buffer := make([]byte, 4)
	length, err := message.EncodeUint32(buffer, value)
	if err != nil {
		log.Fatal(err)
	}
	return message.Option{ID: id, Value: buffer[:length]}
}

func (d *document) ServeCOAP(w mux.ResponseWriter, r *mux.Message) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	switch r.Code() {
	case codes.GET:
		d.get(w, r)
	case codes.PUT:
		d.put(w, r)
	case codes.DELETE:
		d.payload = nil
		d.version++
		respond(w, codes.Deleted, 0, nil)
		d.notify()
	case codes.POST:
		locations := []message.Option{}
		for _, part := range []string{"location1", "location2", "location3"} {
			locations = append(locations, message.Option{ID: message.LocationPath, Value: []byte(part)})
		}
		respond(w, codes.Created, 0, nil, locations...)
	default:
		respond(w, codes.MethodNotAllowed, 0, nil)
	}
}

func (d *document) get(w mux.ResponseWriter, r *mux.Message) {
	if d.payload == nil {
		respond(w, codes.NotFound, 0, nil)
		return
	}
	opts := []message.Option{etag(d.version)}
	key := w.Conn().RemoteAddr().String() + string(r.Token())
	if observe, err := r.Options().Observe(); err == nil && d.observers != nil {
		delete(d.observers, key)
		if observe == 0 {
			d.observers[key] = observer{w.Conn(), slices.Clone(r.Token())}
			opts = append(opts, uintOption(message.Observe, uint32(d.version)))
		}
	}
	if known, err := r.Options().GetBytes(message.ETag); err == nil && bytes.Equal(known, []byte{d.version}) {
		respond(w, codes.Valid, 0, nil, opts...)
		return
	}
	respond(w, codes.Content, d.format, d.payload, opts...)
}

func (d *document) put(w mux.ResponseWriter, r *mux.Message) {
	match, err := r.Options().GetBytes(message.IfMatch)
	differs := err == nil && !bytes.Equal(match, []byte{d.version})
	if differs || r.Options().HasOption(message.IfNoneMatch) && d.payload != nil {
		respond(w, codes.PreconditionFailed, 0, nil)
		return
	}
	payload, err := r.ReadBody()
	if err != nil {
		respond(w, codes.BadRequest, 0, nil)
		return
	}
	format, err := r.Options().ContentFormat()
	if err != nil {
		format = message.TextPlain
	}
	code := codes.Changed
	if d.payload == nil {
		code = codes.Created
	}
	if format != d.format {
		d.dismiss()
	}
	if payload == nil {
		payload = []byte{}
	}
	d.payload, d.format = payload, format
	d.version++
	respond(w, code, 0, nil)
	d.notify()
}

// notify sends the state to all observers. The lock is held.
func (d *document) notify() {
	for _, observer := range d.observers {
		if d.payload == nil {
			d.send(observer, codes.NotFound, nil)
		} else {
			d.send(observer, codes.Content, d.payload)
		}
	}
	if d.payload == nil {
		clear(d.observers)
	}
}

// dismiss ends all observations with 4.06: notifications keep the first Content-Format (RFC 7641
// section 4.2).
func (d *document) dismiss() {
	for _, observer := range d.observers {
		d.send(observer, codes.NotAcceptable, nil)
	}
	clear(d.observers)
}

func (d *document) send(o observer, code codes.Code, payload []byte) {
	notification := o.connection.AcquireMessage(context.Background())
	notification.SetCode(code)
	notification.SetToken(o.token)
	notification.SetType(d.notifications)
	if code == codes.Content {
		notification.SetContentFormat(d.format)
		notification.SetObserve(uint32(d.version))
		notification.SetOptionBytes(message.ETag, []byte{d.version})
		notification.SetBody(bytes.NewReader(payload))
	}
	go func() {
		defer o.connection.ReleaseMessage(notification)
		if err := o.connection.WriteMessage(notification); err != nil {
			d.mutex.Lock()
			defer d.mutex.Unlock()
			delete(d.observers, o.connection.RemoteAddr().String()+string(o.token))
		}
	}()
}

func (d *document) tick(state func(int) []byte) {
	for count := 1; ; count++ {
		time.Sleep(time.Second)
		d.mutex.Lock()
		if d.payload != nil {
			d.payload = state(count)
			d.version++
			d.notify()
		}
		d.mutex.Unlock()
	}
}

func read(payload []byte, format message.MediaType) mux.HandlerFunc {
	return func(w mux.ResponseWriter, r *mux.Message) {
		if r.Code() != codes.GET {
			respond(w, codes.MethodNotAllowed, 0, nil)
			return
		}
		respond(w, codes.Content, format, payload)
	}
}

// separate leaves the response unset, which go-coap acknowledges with an Empty message, and
// sends it later.
func separate(w mux.ResponseWriter, r *mux.Message) {
	connection, token, kind := w.Conn(), slices.Clone(r.Token()), r.Type()
	go func() {
		time.Sleep(1500 * time.Millisecond)
		response := connection.AcquireMessage(context.Background())
		defer connection.ReleaseMessage(response)
		response.SetCode(codes.Content)
		response.SetToken(token)
		response.SetType(kind)
		response.SetContentFormat(message.TextPlain)
		response.SetBody(bytes.NewReader([]byte("separate")))
		if err := connection.WriteMessage(response); err != nil {
			log.Print(err)
		}
	}()
}

func multiFormat(w mux.ResponseWriter, r *mux.Message) {
	accept, err := r.Options().Accept()
	switch {
	case err != nil || accept == message.TextPlain:
		respond(w, codes.Content, message.TextPlain, []byte("hello"))
	case accept == message.AppXML:
		respond(w, codes.Content, message.AppXML, []byte("<text>hello</text>"))
	default:
		respond(w, codes.NotAcceptable, 0, nil)
	}
}

func query(w mux.ResponseWriter, r *mux.Message) {
	queries, _ := r.Options().Queries()
	respond(w, codes.Content, message.TextPlain, []byte(strings.Join(queries, "&")))
}

func locationQuery(w mux.ResponseWriter, r *mux.Message) {
	first, second := []byte("first=1"), []byte("second=2")
	id := message.LocationQuery
	respond(w, codes.Created, 0, nil, message.Option{ID: id, Value: first}, message.Option{ID: id, Value: second})
}

func largePost(w mux.ResponseWriter, r *mux.Message) {
	respond(w, codes.Changed, message.TextPlain, large)
}

// resources are the links of /.well-known/core: path, attributes.
var resources = [][2]string{
	{"/test", ""}, {"/separate", ""}, {"/seg1/seg2/seg3", ""}, {"/query", ""}, {"/large", ";sz=2000"}, {"/obs", ";obs"},
	{"/obs-non", ";obs"}, {"/link1", `;rt="Type1";if="If1";sz=5`}, {"/link2", `;rt="Type2";if="If2"`},
	{"/link3", `;rt="Type1 Type2";if="foo"`}, {"/path", ";ct=40"},
}

// discover filters links by one attribute (RFC 6690 section 4.1).
func discover(w mux.ResponseWriter, r *mux.Message) {
	queries, _ := r.Options().Queries()
	links := []string{}
	for _, resource := range resources {
		if len(queries) == 0 || matches(resource, queries[0]) {
			links = append(links, "<"+resource[0]+">"+resource[1])
		}
	}
	respond(w, codes.Content, message.AppLinkFormat, []byte(strings.Join(links, ",")))
}

func matches(resource [2]string, query string) bool {
	name, wanted, _ := strings.Cut(query, "=")
	values := []string{}
	if name == "href" {
		values = append(values, resource[0])
	}
	for attribute := range strings.SplitSeq(resource[1], ";") {
		key, value, _ := strings.Cut(attribute, "=")
		if key == name && key != "" {
			values = append(values, strings.Fields(strings.Trim(value, `"`))...)
		}
	}
	prefix, isPrefix := strings.CutSuffix(wanted, "*")
	return slices.ContainsFunc(values, func(value string) bool {
		return value == wanted || isPrefix && strings.HasPrefix(value, prefix)
	})
}

func observable(payload []byte, notifications message.Type, state func(int) []byte) *document {
	d := &document{payload: payload, version: 1, notifications: notifications, observers: map[string]observer{}}
	go d.tick(state)
	return d
}

func router() *mux.Router {
	r := mux.NewRouter()
	add := func(path string, handler mux.Handler) {
		if err := r.Handle(path, handler); err != nil {
			log.Fatal(err)
		}
	}
	held := func(payload []byte) *document { return &document{payload: payload, version: 1} }
	add("/test", held([]byte("hello")))
	add("/validate", held([]byte("valid")))
	for _, path := range []string{"/create1", "/create2", "/create3"} {
		add(path, held(nil))
	}
	add("/large-update", held(large))
	add("/large-create", held([]byte{}))
	add("/large", read(large, message.TextPlain))
	add("/large-post", mux.HandlerFunc(largePost))
	add("/separate", mux.HandlerFunc(separate))
	add("/seg1/seg2/seg3", read([]byte("seg3"), message.TextPlain))
	add("/query", mux.HandlerFunc(query))
	add("/multi-format", mux.HandlerFunc(multiFormat))
	add("/location-query", mux.HandlerFunc(locationQuery))
	for _, link := range []string{"link1", "link2", "link3"} {
		add("/"+link, read([]byte(link), message.TextPlain))
	}
	add("/path", read([]byte("</path/sub1>,</path/sub2>,</path/sub3>"), message.AppLinkFormat))
	for _, sub := range []string{"sub1", "sub2", "sub3"} {
		add("/path/"+sub, read([]byte(sub), message.TextPlain))
	}
	add("/.well-known/core", mux.HandlerFunc(discover))
	tick := func(count int) []byte { return fmt.Appendf(nil, "tick %d", count) }
	add("/obs", observable([]byte("tick"), message.Confirmable, tick))
	add("/obs-non", observable([]byte("tick"), message.NonConfirmable, tick))
	add("/obs-large", observable(large, message.NonConfirmable, func(count int) []byte {
		return append([]byte{byte('a' + count%26)}, large[1:]...)
	}))
	return r
}

// transferTimeout is longer than a body of 64 KiB takes on the slowest network.
const transferTimeout = 10 * time.Minute

// announce prints the address of the server.
func announce(address net.Addr) {
	fmt.Printf("listening %s\n", address)
}

func main() {
	blocks := options.WithBlockwise(true, blockwise.SZX1024, transferTimeout)
	if len(os.Args) < 3 {
		log.Fatal("usage: server ADDRESS PORT [MODE CREDENTIALS]")
	}
	address := net.JoinHostPort(os.Args[1], os.Args[2])
	if len(os.Args) < 5 {
		listener, err := coapNet.NewListenUDP("udp", address)
		if err != nil {
			log.Fatal(err)
		}
		announce(listener.LocalAddr())
		log.Fatal(udp.NewServer(options.WithMux(router()), blocks).Serve(listener))
	}
	protection, err := credentials.Server(os.Args[3], os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	listener, err := coapNet.NewDTLSListener("udp", address, coapNet.NewDTLSServerOptions(protection...))
	if err != nil {
		log.Fatal(err)
	}
	announce(listener.Addr())
	log.Fatal(dtlsServer.NewServer(options.WithMux(router()), blocks).Serve(listener))
}
