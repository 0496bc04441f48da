// go-coap client of `cargo xtask bench-peers`; arguments and output: ../../README.md.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/plgd-dev/go-coap/v3/udp"
	"github.com/plgd-dev/go-coap/v3/udp/client"
)

var answered atomic.Uint64

func ask(server *client.Conn) {
	for {
		response, err := server.Get(context.Background(), "/test")
		if err != nil {
			log.Print(err)
			continue
		}
		if payload, err := response.ReadBody(); err == nil && len(payload) == 60 {
			answered.Add(1)
		}
		server.ReleaseMessage(response)
	}
}

func number(at int) float64 {
	value, err := strconv.ParseFloat(os.Args[at], 64)
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	port, destinations := int(number(1)), int(number(2))
	for destination := range destinations {
		server, err := udp.Dial(fmt.Sprintf("127.0.0.1:%d", port+destination))
		if err != nil {
			log.Fatal(err)
		}
		go ask(server)
	}
	time.Sleep(time.Duration(number(3) * float64(time.Second)))
	before := answered.Load()
	time.Sleep(time.Duration(number(4) * float64(time.Second)))
	fmt.Println("answered", answered.Load()-before)
}
