// go-coap client of `cargo xtask implementations`; arguments and output: ../../../implementations/README.md.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/plgd-dev/go-coap/v3/udp"
)

func number(at int) float64 {
	value, err := strconv.ParseFloat(os.Args[at], 64)
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func now() float64 {
	return float64(time.Now().UnixMicro()) / 1e6
}

func sleep(seconds float64) {
	time.Sleep(time.Duration(seconds * float64(time.Second)))
}

func main() {
	exchanges, interval := int(number(3)), number(4)
	server, err := udp.Dial(os.Args[1] + ":" + os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	sleep(number(5) - now())
	for range exchanges {
		began := now()
		response, err := server.Get(context.Background(), "/")
		if err != nil {
			log.Print(err)
		} else {
			server.ReleaseMessage(response)
		}
		fmt.Printf("{\"start\": %.6f, \"end\": %.6f, \"answered\": %t}\n", began, now(), err == nil)
		sleep(interval)
	}
}
