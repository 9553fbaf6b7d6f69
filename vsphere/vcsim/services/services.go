// Package services answers for the services of guests: a connection to an address that a running guest reports is accepted, on any port, and
// each request is answered with 200 OK. It is a network in memory: nothing listens outside the process.
package services

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
)

// Services are those of all guests.
type Services struct {
	up func(address string) (vm string, up bool)

	mu   sync.Mutex
	down []string // VMs
	cut  bool
}

// New returns the services of guests: up names the VM whose running guest reports an address.
func New(up func(address string) (vm string, up bool)) *Services { return &Services{up: up} }

// StopService makes the service of a VM, by its moRef, refuse connections, until on.
func (s *Services) StopService(vm string, stop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = slices.DeleteFunc(s.down, func(other string) bool { return other == vm })
	if stop {
		s.down = append(s.down, vm)
	}
}

// CutGuests cuts the path to all guests, until off: connections get no answer.
func (s *Services) CutGuests(cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = cut
}

// DialGuest connects to a port of a guest, like net.Dialer.DialContext.
func (s *Services) DialGuest(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	vm, up := s.up(host)
	s.mu.Lock()
	cut, stopped := s.cut, slices.Contains(s.down, vm)
	s.mu.Unlock()
	switch {
	case cut || !up: // nobody has the address
		<-ctx.Done()
		return nil, ctx.Err()
	case stopped:
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	near, far := net.Pipe()
	go serve(far)
	return near, nil
}

// serve answers one request, until the client hangs up.
func serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
		return
	}
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}
