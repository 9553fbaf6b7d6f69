package guard

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// impatient returns limits that a slow client soon reaches.
func impatient() Limits {
	l := generous
	l.Header, l.Read, l.Write, l.Idle = 2*time.Second, 4*time.Second, 6*time.Second, 3*time.Second
	return l
}

func dial(t *testing.T, d *guarded) net.Conn {
	t.Helper()
	conn, err := d.dial(t.Context(), "tcp", d.addr)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(timeout))
	return conn
}

// cutOff waits until the server closes the connection, and returns its answer.
func cutOff(t *testing.T, conn net.Conn) (answer string) {
	t.Helper()
	text, err := io.ReadAll(conn)
	if timeout, is := err.(net.Error); is && timeout.Timeout() {
		t.Error("the connection is still open")
	}
	return string(text)
}

// drip sends a byte from time to time, until a write fails or the test ends.
func drip(t *testing.T, conn net.Conn) {
	var dripping sync.WaitGroup
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); _ = conn.Close(); dripping.Wait() })
	dripping.Go(func() {
		for {
			if _, err := conn.Write([]byte("x")); err != nil {
				return
			}
			select {
			case <-time.After(time.Second):
			case <-stop:
				return
			}
		}
	})
}

func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]string{
		"nothing at all":        "",
		"a dripping header":     "POST /sync HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"a caller's slow body":  "POST /sync HTTP/1.1\r\nHost: x\r\nAuthorization: " + right + "\r\nContent-Length: 100000\r\n\r\n",
		"one in endless chunks": "POST /sync HTTP/1.1\r\nHost: x\r\nAuthorization: " + right + "\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, cfg := tokenFiles(t, first, "", "") // own files for each bubble: readings of one file are shared, and a reading must not leave its bubble
			synctest.Test(t, func(t *testing.T) {
				d := openInMemory(t, cfg, impatient())
				conn := dial(t, d)
				_, _ = io.WriteString(conn, send)
				if send != "" {
					drip(t, conn)
				}
				if answer := cutOff(t, conn); strings.Contains(answer, "200 OK") {
					t.Errorf("the slow client got the answer %q; want none with 200", answer)
				}
				if d.calls.Load() > 0 {
					t.Error("the slow client's request reached the handler")
				}
			})
		})
	}
}

func TestAClientThatDoesNotReadItsAnswerIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		d := openInMemory(t, Config{}, impatient(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					ended <- err
					return
				}
			}
		}))
		conn := dial(t, d)
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		select {
		case <-ended:
		case <-time.After(timeout):
			t.Error("the answer is still being written")
		}
	})
}

func TestAnIdleConnectionIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := openInMemory(t, Config{}, impatient())
		conn := dial(t, d)
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if answer := cutOff(t, conn); !strings.Contains(answer, "200 OK") {
			t.Errorf("the answer is %q; want %q in the text", answer, "200 OK")
		}
	})
}

func TestALargeHeaderIsRefused(t *testing.T) {
	t.Parallel()
	d := open(t, Config{}, generous)
	conn := dial(t, d)
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nX-Large: %s\r\n\r\n", strings.Repeat("x", 32<<10))
	if answer := cutOff(t, conn); !strings.Contains(answer, "431 ") {
		t.Errorf("the answer is %q; want %q in the text", answer, "431 ")
	}
}

// The server also bounds the time of a handshake.
func TestASlowHandshakeIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := openInMemory(t, withPair(newVolume(t, pairFiles(newAuthority(t))), Config{}), impatient())
		cutOff(t, dial(t, d))
		eventually(t, "the slow handshake is counted", func() bool { return d.counted(handshake) == 1 })
	})
}

func TestConnectionsAreBoundedInTotalAndByAddress(t *testing.T) {
	t.Parallel()
	l := generous
	l.Connections, l.PerAddress = 4, 3
	d := open(t, Config{}, l)
	alive := func(conn net.Conn) bool {
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		_, err := http.ReadResponse(bufio.NewReader(conn), nil)
		return err == nil
	}
	from := func(address string) net.Conn {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		conn, err := dialer.Dial("tcp", d.addr)
		if err != nil {
			t.Skipf("this machine has no %s: %v", address, err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(timeout))
		return conn
	}
	var held []net.Conn
	for range 3 {
		conn := from("127.0.0.1")
		if held = append(held, conn); !alive(conn) {
			t.Fatal("one of the first three connections from an address is refused")
		}
	}
	if alive(from("127.0.0.1")) {
		t.Error("a fourth connection from one address is accepted")
	}
	if !alive(from("127.0.0.2")) {
		t.Error("the connections from one address lock another address out")
	}
	if alive(from("127.0.0.1")) {
		t.Error("a fourth connection from one address, and the fifth in all, is accepted")
	}
	eventually(t, "both are counted", func() bool { return d.counted(tooMany) == 2 })
	_ = held[0].Close()
	eventually(t, "there is room again", func() bool { return alive(from("127.0.0.1")) })
}

// Once all connections are in use, an address with few takes the oldest from the one with most.
func TestClientsThatOccupyAllConnectionsKeepNoOtherClientOut(t *testing.T) {
	t.Parallel()
	l := generous
	l.Connections, l.PerAddress = 8, 6
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	var beyond atomic.Int32
	b := Bound(listener, l, func(string) { beyond.Add(1) })
	accepted := make(chan net.Conn, 100)
	go func() {
		for {
			c, err := b.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	defer b.Close() //nolint:errcheck // the test has ended
	from := func(address string) (near, far net.Conn) {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		conn, err := dialer.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Skipf("this machine has no %s: %v", address, err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(timeout))
		return conn, <-accepted
	}
	var first net.Conn
	for n := range 6 {
		near, _ := from("127.0.0.1")
		if n == 0 {
			first = near
		}
	}
	from("127.0.0.2")
	from("127.0.0.2")
	for range 3 { // the connections that Metacontroller needs, one after the other
		from("127.0.0.3")
	}
	if _, err := first.Read(make([]byte, 1)); err != io.EOF && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the oldest connection of the address with most: %v", err)
	}
	if n := beyond.Load(); n != 3 {
		t.Errorf("%d connections were closed for others; want 3", n)
	}
}

func TestTheLogOfAnUncaughtPanicHasNoValue(t *testing.T) {
	t.Parallel()
	d := open(t, Config{}, generous, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("the secret is 4242") }))
	if got := d.code(client(t, nil, nil), "GET", ""); got != 0 {
		t.Errorf("answered %d; want 0", got)
	}
	eventually(t, "the handler's panic is logged", func() bool { return strings.Contains(d.log.String(), "a handler panicked") })
	if log := d.log.String(); strings.Contains(log, "4242") || !strings.Contains(log, "limits_test.go") {
		t.Errorf("the log says %s", log)
	}
}

// As many addresses as there are connections hold one each. A client with a token gets in, and stays: its connection isn't taken for others that show none.
func TestConnectionsOfManyAddressesDoNotKeepOutAClientWithAToken(t *testing.T) {
	t.Parallel()
	_, cfg := tokenFiles(t, first, "", "")
	l := generous
	l.Connections, l.PerAddress = 8, 6
	d := open(t, cfg, l)
	from := func(n int) net.Conn {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(n))}}
		conn, err := dialer.Dial("tcp", d.addr)
		if err != nil {
			t.Skipf("this machine has no such address: %v", err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(timeout))
		return conn
	}
	calls := func(conn net.Conn, authorization string) int {
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: "+authorization+"\r\n\r\n")
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return 0
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode
	}
	flood := func(begin int) { // the kernel hands connections over in their order
		for n := range 8 {
			from(begin + n)
		}
	}
	flood(1)
	calm := from(100)
	if code := calls(calm, right); code != 200 {
		t.Fatalf("beside as many addresses as there are connections, a call with the token is answered %d; want 200", code)
	}
	flood(20)
	if code := calls(calm, right); code != 200 {
		t.Errorf("after more of them, a call on the same connection is answered %d; want 200", code)
	}
}
