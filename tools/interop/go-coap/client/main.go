// go-coap client of `cargo xtask interop`; arguments, input and output: ../../README.md.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math/bits"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"conche/interop/go-coap/credentials"
	"github.com/plgd-dev/go-coap/v3/dtls"
	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/message/pool"
	"github.com/plgd-dev/go-coap/v3/net/blockwise"
	"github.com/plgd-dev/go-coap/v3/options"
	"github.com/plgd-dev/go-coap/v3/udp"
	"github.com/plgd-dev/go-coap/v3/udp/client"
)

// timeout is longer than a body of 64 KiB takes on the slowest network.
const timeout = 10 * time.Minute

var methods = map[string]codes.Code{
	"GET": codes.GET, "POST": codes.POST, "PUT": codes.PUT, "DELETE": codes.DELETE,
	"FETCH": codes.Code(5), "PATCH": codes.Code(6), "iPATCH": codes.Code(7),
}

var (
	output      sync.Mutex
	mode        = "plain"
	blockSize   = blockwise.SZX1024
	directory   string
	connections = map[string]*client.Conn{}
	// observed is the request of the latest observation, and its destination.
	observed struct {
		connection *client.Conn
		token      message.Token
		path       string
		cancel     func()
	}
)

func say(format string, arguments ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Printf(format+"\n", arguments...)
}

func report(what string, response *pool.Message) {
	payload, err := response.ReadBody()
	if err != nil {
		say("failed %v", err)
		return
	}
	code := response.Code()
	say("%s %d.%02d %s", what, code>>5, code&31, hex.EncodeToString(payload))
}

// connect returns the connection to an address, opened for the first request.
func connect(address string) (*client.Conn, error) {
	if connection, ok := connections[address]; ok && connection.Context().Err() == nil {
		return connection, nil
	}
	// The cases ask for Block1 and Block2, not for Q-Block.
	blocks := options.WithBlockwise(true, blockSize, timeout)
	// NSTART, ACK_TIMEOUT and MAX_RETRANSMIT of RFC 7252 section 4.8; go-coap's default is 3
	// retransmissions.
	transmission := options.WithTransmission(1, 2*time.Second, 4)
	var connection *client.Conn
	var err error
	if mode == "plain" {
		connection, err = udp.Dial(address, blocks, transmission)
	} else {
		protection, failed := credentials.Client(mode, directory)
		if failed != nil {
			return nil, failed
		}
		connection, err = dtls.Dial(address, dtls.NewDTLSClientOptions(protection...), blocks, transmission)
	}
	if err == nil {
		connections[address] = connection
	}
	return connection, err
}

// build makes a request from the words of a line: CON|NON METHOD URI [option=NUMBER:VALUE]
// [token=BYTES] [payload=BYTES].
func build(words []string) (*client.Conn, *pool.Message, error) {
	target, err := url.Parse(words[2])
	if err != nil {
		return nil, nil, err
	}
	connection, err := connect(target.Host)
	if err != nil {
		return nil, nil, err
	}
	request := connection.AcquireMessage(context.Background())
	request.SetCode(methods[words[1]])
	request.SetType(message.Confirmable)
	if words[0] == "NON" {
		request.SetType(message.NonConfirmable)
	}
	request.SetMessageID(connection.GetMessageID())
	token, err := message.GetToken()
	if err != nil {
		return nil, nil, err
	}
	request.SetToken(token)
	if err := request.SetPath(target.Path); err != nil {
		return nil, nil, err
	}
	for _, query := range strings.FieldsFunc(target.RawQuery, func(r rune) bool { return r == '&' }) {
		query, err := url.PathUnescape(query)
		if err != nil {
			return nil, nil, err
		}
		request.AddQuery(query)
	}
	if request.Code() == codes.GET && blockSize != blockwise.SZX1024 {
		request.SetOptionUint32(message.Block2, uint32(blockSize))
	}
	for _, word := range words[3:] {
		if err := add(request, word); err != nil {
			return nil, nil, err
		}
	}
	return connection, request, nil
}

func add(request *pool.Message, word string) error {
	name, value, _ := strings.Cut(word, "=")
	number := ""
	if name == "option" {
		number, value, _ = strings.Cut(value, ":")
	}
	decoded, err := hex.DecodeString(value)
	if err != nil {
		return err
	}
	switch name {
	case "payload":
		request.SetBody(bytes.NewReader(decoded))
	case "token":
		request.SetToken(decoded)
	case "option":
		id, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return err
		}
		request.AddOptionBytes(message.OptionID(id), decoded)
	default:
		return fmt.Errorf("unknown word %q", word)
	}
	return nil
}

func send(connection *client.Conn, request *pool.Message) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	request.SetContext(ctx)
	if request.Code() == codes.GET && request.HasOption(message.Observe) {
		if observe, err := request.Observe(); err == nil && observe == 0 {
			register(connection, request)
			return
		}
	}
	response, err := connection.Do(request)
	if err != nil {
		say("failed %v", err)
		return
	}
	report("response", response)
}

func register(connection *client.Conn, request *pool.Message) {
	path, _ := request.Path()
	token := append(message.Token{}, request.Token()...)
	first := true
	observation, err := connection.DoObserve(request, func(notification *pool.Message) {
		what := "notified"
		if first {
			what, first = "response", false
		}
		report(what, notification)
	})
	if err != nil {
		say("failed %v", err)
		return
	}
	observed.connection, observed.token, observed.path = connection, token, path
	observed.cancel = func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := observation.Cancel(ctx); err != nil {
			say("failed %v", err)
			return
		}
		say("response 2.05 ")
	}
}

func handle(words []string) error {
	switch words[0] {
	case "ping":
		target, err := url.Parse(words[1])
		if err != nil {
			return err
		}
		connection, err := connect(target.Host)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := connection.Ping(ctx); err != nil {
			return err
		}
		say("response pong")
	case "stop":
		if words[1] != "get" {
			return fmt.Errorf("go-coap rejects no notification by itself")
		}
		observed.cancel()
	default:
		connection, request, err := build(words)
		if err != nil {
			return err
		}
		send(connection, request)
	}
	return nil
}

func main() {
	if len(os.Args) > 2 {
		mode, directory = os.Args[1], os.Args[2]
	}
	if size, err := strconv.Atoi(os.Getenv("BLOCK_SIZE")); err == nil {
		blockSize = blockwise.SZX(bits.Len(uint(size)) - 5)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if err := handle(strings.Fields(lines.Text())); err != nil {
			say("failed %v", err)
		}
	}
}
