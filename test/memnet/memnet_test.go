package memnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/memnet"
)

func TestAServerOnTheNetworkAnswersInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		listener := network.Listen()
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Hour)
			_, _ = io.WriteString(w, r.Host+" for "+r.RemoteAddr)
		})}
		go func() { _ = server.Serve(listener) }()
		transport := network.Transport()
		client := &http.Client{Transport: transport}
		began := time.Now()
		response, err := client.Get("http://" + listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || string(text) != "127.0.0.1:1025 for 127.0.0.1:1026" {
			t.Errorf("%q, %v", text, err)
		}
		if took := time.Since(began); took != time.Hour {
			t.Errorf("it took %s", took)
		}
		transport.CloseIdleConnections()
		_ = server.Close()
		if _, err := client.Get("http://" + listener.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("after the listener closed: %v", err)
		}
	})
}

func TestADialWithoutAcceptEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		listener := network.Listen()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := network.DialContext(ctx, "tcp", listener.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		go func() { _ = listener.Close() }()
		if _, err := network.DialContext(t.Context(), "tcp", listener.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("closed while it dials: %v", err)
		}
		if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept of a closed listener: %v", err)
		}
	})
}

func TestAConnectionEndsOrIsReset(t *testing.T) {
	for reset, want := range map[bool]error{false: io.EOF, true: syscall.ECONNRESET} {
		synctest.Test(t, func(t *testing.T) {
			network := memnet.New()
			listener := network.Listen()
			go func() {
				far, err := listener.Accept()
				if err != nil {
					return
				}
				if reset {
					_ = far.(interface{ SetLinger(int) error }).SetLinger(0)
				}
				_ = far.Close()
			}()
			near, err := network.DialContext(t.Context(), "tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := near.Read(make([]byte, 1)); !errors.Is(err, want) {
				t.Errorf("reset %t: read %v", reset, err)
			}
			_ = near.Close()
			_ = listener.Close()
		})
	}
}
