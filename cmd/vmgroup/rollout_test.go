package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// behindService returns a client like Metacontroller's, whose new connections lead to the server that is stored, as through a Service.
func behindService(t *testing.T, to *atomic.Pointer[string]) *http.Client {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, *to.Load())
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Timeout: timeout, Transport: transport}
}

// While one server takes the place of another, no hook call fails: a connection that the former one has open is closed between two calls.
func TestAServerThatEndsCutsNoCall(t *testing.T) {
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{})
	var to atomic.Pointer[string]
	address := func(p *process) *string { a := p.url[len("http://"):]; return &a }
	now := serveReady(t, against(vc))
	to.Store(address(now))
	client := behindService(t, &to)
	const body = `{"parent": {"apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup", "metadata": {"namespace": "shop", "name": "web"}}}`
	call := func() error {
		response, err := client.Post("http://127.0.0.1:1/customize", "application/json", bytes.NewReader([]byte(body)))
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, response.Body)
		if response.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %d", response.StatusCode)
		}
		return errors.Join(err, response.Body.Close())
	}
	end := make(chan struct{})
	var workers sync.WaitGroup
	var calls, failed atomic.Int64
	var first atomic.Pointer[error]
	for range 5 { // as many as Metacontroller has
		workers.Go(func() {
			for {
				select {
				case <-end:
					return
				case <-time.After(time.Millisecond):
				}
				calls.Add(1)
				if err := call(); err != nil {
					failed.Add(1)
					first.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	for range 3 {
		next := serveReady(t, against(vc))
		to.Store(address(next))
		since := calls.Load()
		eventually(t, "the dials that were on their way have ended, as during preStop", func() bool { return calls.Load() > since+20 })
		now.stop(t)
		now = next
	}
	close(end)
	workers.Wait()
	if n := failed.Load(); n > 0 || calls.Load() < 100 {
		t.Errorf("%d of %d calls failed, the first: %v", n, calls.Load(), *first.Load())
	}
	must.Succeed(t, call())
}
