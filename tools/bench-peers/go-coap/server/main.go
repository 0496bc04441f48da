// go-coap server of `cargo xtask bench-peers`; arguments and resources: ../../README.md.
package main

import (
	"bytes"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	coap "github.com/plgd-dev/go-coap/v3"
	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/mux"
)

var payload = bytes.Repeat([]byte("x"), 65536)

// observers receive each change, or only the last one if they are slow.
type observers struct {
	sync.Mutex
	changed map[chan struct{}]struct{}
}

func (all *observers) add() chan struct{} {
	all.Lock()
	defer all.Unlock()
	changed := make(chan struct{}, 1)
	all.changed[changed] = struct{}{}
	return changed
}

func (all *observers) remove(changed chan struct{}) {
	all.Lock()
	defer all.Unlock()
	delete(all.changed, changed)
}

func (all *observers) notify() {
	all.Lock()
	defer all.Unlock()
	for changed := range all.changed {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

func notification(to mux.Conn, token message.Token, number uint32) error {
	state := to.AcquireMessage(to.Context())
	defer to.ReleaseMessage(state)
	state.SetCode(codes.Content)
	state.SetToken(token)
	state.SetType(message.Confirmable)
	state.SetObserve(number)
	state.SetContentFormat(message.AppOctets)
	state.SetBody(bytes.NewReader(payload[:60]))
	return to.WriteMessage(state)
}

func (all *observers) follow(to mux.Conn, token message.Token) {
	changed := all.add()
	defer all.remove(changed)
	for number := uint32(2); ; number++ {
		select {
		case <-changed:
		case <-to.Context().Done():
			return
		}
		if notification(to, token, number) != nil {
			return
		}
	}
}

func respond(to mux.ResponseWriter, length int) {
	if err := to.SetResponse(codes.Content, message.AppOctets, bytes.NewReader(payload[:length])); err != nil {
		log.Print(err)
	}
}

func main() {
	port := os.Args[1]
	interval, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	all := observers{changed: map[chan struct{}]struct{}{}}
	router := mux.NewRouter()
	get := func(path string, handler mux.HandlerFunc) {
		if err := router.Handle(path, handler); err != nil {
			log.Fatal(err)
		}
	}
	get("/test", func(to mux.ResponseWriter, _ *mux.Message) { respond(to, 60) })
	get("/big", func(to mux.ResponseWriter, _ *mux.Message) { respond(to, len(payload)) })
	get("/tick", func(to mux.ResponseWriter, request *mux.Message) {
		respond(to, 60)
		if observe, err := request.Options().Observe(); err == nil && observe == 0 {
			to.Message().SetObserve(1)
			go all.follow(to.Conn(), bytes.Clone(request.Token()))
		}
	})
	if interval > 0 {
		go func() {
			for {
				time.Sleep(time.Duration(interval) * time.Millisecond)
				all.notify()
			}
		}()
	}
	log.Fatal(coap.ListenAndServe("udp", "127.0.0.1:"+port, router))
}
