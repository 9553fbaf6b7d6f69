package probe

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// guests are services behind addresses, in memory.
type guests struct {
	mu     sync.Mutex
	answer map[string]string // by "address:port": what it sends to a connection; "silence" sends nothing
	dials  map[string]int
	heard  string
	atOnce int
	most   int
}

func (g *guests) dial(ctx context.Context, _, to string) (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dials[to]++
	text, listens := g.answer[to]
	if !listens {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	g.atOnce++
	g.most = max(g.most, g.atOnce)
	near, far := net.Pipe()
	go func() {
		defer func() { _ = far.Close() }()
		request := make([]byte, 4096)
		n, err := far.Read(request)
		if err != nil {
			return
		}
		g.mu.Lock()
		g.heard = string(request[:n])
		g.mu.Unlock()
		if text == "silence" {
			_, _ = far.Read(request)
			return
		}
		_, _ = io.WriteString(far, text)
	}()
	return &counted{near, g}, nil
}

type counted struct {
	net.Conn
	g *guests
}

func (c *counted) Close() error {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	c.g.atOnce--
	return c.Conn.Close()
}

func (g *guests) set(to, text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if text == "" {
		delete(g.answer, to)
	} else {
		g.answer[to] = text
	}
}

func (g *guests) count(to string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dials[to]
}

// start runs a prober in a bubble; its guests are in 10.0.0.0/8.
func start(t *testing.T, change ...func(*Config)) (*Prober, *guests) {
	g := &guests{answer: map[string]string{}, dials: map[string]int{}}
	c := Config{Networks: Networks{Allowed: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, Dial: g.dial,
		Jitter: func(most time.Duration) time.Duration { return most / 2 }}
	for _, f := range change {
		f(&c)
	}
	p := New(c)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return p, g
}

var (
	byTCP  = v1alpha1.Readiness{TCPSocket: &v1alpha1.TCPSocket{Port: 5432}}
	byHTTP = v1alpha1.Readiness{HTTPGet: &v1alpha1.HTTPGet{Port: 80, Path: "/ready?full=1", HTTPHeaders: []v1alpha1.HTTPHeader{{Name: "host", Value: "web.example.com"}, {Name: "X-Who", Value: "me"}}}}
)

func asked(r v1alpha1.Readiness, ready bool, addresses ...string) plan.Ask {
	a := plan.Ask{Readiness: r}
	for i, text := range addresses {
		a.Members = append(a.Members, plan.Asked{MoRef: fmt.Sprint("vm-", i), Address: netip.MustParseAddr(text), Ready: ready})
	}
	return a
}

// look returns what is known about a group, as "vm-0 Answering" or "vm-1 Silent (connection refused)".
func look(p *Prober, uid types.UID, r v1alpha1.Readiness) string {
	var all []string
	a := p.Answers(uid, &r)
	for moRef, one := range a.Of {
		text := strings.TrimSpace(moRef + " " + string(one.Concluded))
		if one.Refused {
			text += " refused"
		}
		if one.Failure != "" {
			text += " (" + one.Failure + ")"
		}
		all = append(all, text)
	}
	slices.Sort(all)
	if a.Suppressed {
		all = append(all, "suppressed")
	}
	return strings.Join(all, ", ")
}

func expect(t *testing.T, p *Prober, r v1alpha1.Readiness, want string) {
	t.Helper()
	synctest.Wait()
	if got := look(p, "a", r); got != want {
		t.Errorf("after %s: %s; want %s", time.Now().Format("05"), got, want)
	}
}

const ok = "HTTP/1.1 200 OK\r\n\r\n"

func TestAMemberAnswersOnceItsPortAcceptsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := start(t)
		p.Ask("a", asked(byTCP, false, "10.0.0.1"), time.Now().Add(time.Hour))
		expect(t, p, byTCP, "vm-0")
		time.Sleep(25 * time.Second)
		expect(t, p, byTCP, "vm-0 Silent (connection refused)")
		g.set("10.0.0.1:5432", ok)
		time.Sleep(10 * time.Second)
		expect(t, p, byTCP, "vm-0 Answering")
		if n := g.count("10.0.0.1:5432"); n != 4 {
			t.Errorf("%d connections in 35 s, want one every ten seconds", n)
		}
	})
}

func TestAnHTTPAnswerIsJudgedByItsStatusAlone(t *testing.T) {
	for answer, want := range map[string]string{
		ok: "Answering",
		"HTTP/1.1 302 Found\r\nLocation: http://10.0.0.9/\r\n\r\n":             "Answering",
		"HTTP/1.1 399 Odd\r\n\r\n":                                             "Answering",
		"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok:                  "Answering",
		"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\nand so on":       "Answering",
		"HTTP/1.1 400 Bad\r\n\r\n":                                             "Silent (HTTP status 400)",
		"HTTP/1.1 503 <script>\r\n\r\nbody":                                    "Silent (HTTP status 503)",
		"HTTP/1.1 101 Switching Protocols\r\n\r\n":                             "Silent (HTTP status 101)",
		"SSH-2.0-OpenSSH_9.2\r\n":                                              "Silent (no answer by HTTP)",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*maxHead) + "\r\n\r\n": "Silent (no answer by HTTP)",
		strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", maxHead/20):            "Silent (no answer by HTTP)",
		"silence": "Silent (no answer within 1 s)",
	} {
		synctest.Test(t, func(t *testing.T) {
			p, g := start(t)
			g.set("10.0.0.1:80", answer)
			p.Ask("a", asked(byHTTP, false, "10.0.0.1"), time.Now().Add(time.Hour))
			time.Sleep(25 * time.Second)
			expect(t, p, byHTTP, "vm-0 "+want)
			for _, line := range []string{"GET /ready?full=1 HTTP/1.1\r\n", "Host: web.example.com\r\n", "X-Who: me\r\n", "Connection: close\r\n"} {
				if !strings.Contains(g.heard, line) {
					t.Errorf("the request has no %q: %q", line, g.heard)
				}
			}
			if len(g.dials) != 1 {
				t.Errorf("asked %v; want one", g.dials)
			}
		})
	}
}

func TestOnlyAddressesInTheAllowedNetworksAreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := start(t, func(c *Config) { c.Networks.Own = []netip.Addr{netip.MustParseAddr("10.0.0.7")} })
		p.Ask("a", asked(byTCP, true, "10.0.0.1", "192.168.0.1", "10.0.0.7"), time.Now().Add(time.Hour))
		time.Sleep(time.Minute)
		expect(t, p, byTCP, "vm-0 Silent (connection refused), vm-1 refused, vm-2 refused")
		if len(g.dials) != 1 || g.count("10.0.0.1:5432") == 0 {
			t.Errorf("asked %v", g.dials)
		}
	})
	all := Networks{Allowed: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}
	for _, text := range []string{"127.0.0.1", "127.8.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "ff02::1",
		"::ffff:127.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0",
		// These addresses embed an IPv4 address.
		"::7f00:1", "::a9fe:a9fe", "::10.0.0.1", "::ffff:0:7f00:1", "::ffff:0:a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b:1::a9fe:a9fe", "64:ff9b:1:fffe:a9:fea9:fe00:0",
		"2002:7f00:1::", "2002:a9fe:a9fe::1", "2001::1", "2001:0:a9fe:a9fe::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2",
		"2001:db8::5efe:a9fe:a9fe", "2001:db8::200:5efe:7f00:1", "fd00::5efe:a00:1", "192.88.99.1",
		// Clouds serve their metadata at these addresses.
		"fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "100.100.100.200", "168.63.129.16", "192.0.0.192"} {
		if all.Allow(netip.MustParseAddr(text)) {
			t.Errorf("%s can be asked", text)
		}
	}
	for _, text := range []string{"10.0.0.1", "192.0.2.1", "2001:db8::1", "fd00::1", "2001:1::1", "fd00:ec3::254", "100.100.100.201", "fd00:42::43", "2001:db8::5eff:a00:1"} {
		if a := netip.MustParseAddr(text); !all.Allow(a) || (&Networks{}).Allow(a) {
			t.Errorf("%s: can be asked with all networks %t, with none %t", text, all.Allow(a), (&Networks{}).Allow(a))
		}
	}
}

func TestAMemberThatWasDownIsNotTakenForReadyUntilItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := start(t)
		hour := time.Now().Add(time.Hour)
		down := func() bool { return p.Answers("a", &byTCP).Of["vm-0"].Down }
		g.set("10.0.0.1:5432", ok)
		p.Ask("a", asked(byTCP, true, "10.0.0.1"), hour)
		time.Sleep(30 * time.Second)
		if expect(t, p, byTCP, "vm-0 Answering"); down() {
			t.Error("vm-0 is down although no request has listed it as down")
		}
		off := asked(byTCP, true)
		off.Down = []string{"vm-0"}
		p.Ask("a", off, hour)
		if expect(t, p, byTCP, "vm-0"); !down() {
			t.Error("vm-0 is not down although the request lists it as down")
		}
		g.set("10.0.0.1:5432", "")
		p.Ask("a", asked(byTCP, true, "10.0.0.1"), hour) // the request has an older status
		if expect(t, p, byTCP, "vm-0"); !down() {
			t.Error("vm-0 is not down although its guest has not answered since")
		}
		p.Ask("a", asked(byTCP, true, "10.0.0.7"), hour)
		if expect(t, p, byTCP, "vm-0"); !down() {
			t.Error("vm-0 is not down although its guest has not answered since, by its new address either")
		}
		g.set("10.0.0.7:5432", ok)
		time.Sleep(30 * time.Second)
		if expect(t, p, byTCP, "vm-0 Answering"); down() {
			t.Error("vm-0 is down although its guest answers")
		}
	})
}

func TestWhatIsKnownOfAMemberGoesWithItsAddressItsProbeItsLeaseAndItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := start(t)
		hour := time.Now().Add(time.Hour)
		for _, to := range []string{"10.0.0.1:5432", "10.0.0.2:5432", "10.0.0.3:5432"} {
			g.set(to, ok)
		}
		p.Ask("a", asked(byTCP, false, "10.0.0.1", "10.0.0.2"), hour)
		time.Sleep(time.Second)
		expect(t, p, byTCP, "vm-0 Answering, vm-1 Answering")
		other := byTCP
		other.PeriodSeconds = new(int32)
		*other.PeriodSeconds = 5
		expect(t, p, other, "")
		p.Ask("a", asked(byTCP, false, "10.0.0.1", "10.0.0.3"), hour)
		expect(t, p, byTCP, "vm-0 Answering, vm-1")
		p.Ask("a", asked(byTCP, false, "10.0.0.1"), hour)
		expect(t, p, byTCP, "vm-0 Answering")
		unlike := byTCP
		unlike.Check = v1alpha1.ReadyGuestIP // the prober makes the same request
		p.Ask("a", asked(unlike, false, "10.0.0.1"), hour)
		expect(t, p, byTCP, "vm-0 Answering")
		p.Ask("a", asked(other, false, "10.0.0.1"), hour)
		expect(t, p, other, "vm-0")
		p.Ask("a", asked(other, false, "10.0.0.1"), time.Now().Add(20*time.Second))
		time.Sleep(time.Minute)
		expect(t, p, other, "")
		n := g.count("10.0.0.1:5432")
		time.Sleep(time.Minute)
		if again := g.count("10.0.0.1:5432"); again != n {
			t.Errorf("asked %d times after the lease", again-n)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.groups)+len(p.paces)+len(p.due) > 0 {
			t.Errorf("%d groups, %d addresses, %d due are left", len(p.groups), len(p.paces), len(p.due))
		}
	})
}

func TestConnectionsAreBoundedInAllAndToEachAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := start(t, func(c *Config) { c.AtOnce = 8 })
		silent := byHTTP
		for i := range 40 {
			address := fmt.Sprintf("10.0.0.%d", i+1)
			g.set(address+":80", "silence")
			a := asked(silent, false, address)
			a.Namespace = fmt.Sprint("team-", i%2)
			p.Ask(types.UID(fmt.Sprint("g", i)), a, time.Now().Add(time.Hour))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if g.most != 8 {
			t.Errorf("%d connections at once; want 8", g.most)
		}
		g.mu.Lock()
		for to, n := range g.dials {
			if n < 3 {
				t.Errorf("%s was asked %d times in a minute; want at least 3", to, n)
			}
		}
		g.mu.Unlock()
	})
	synctest.Test(t, func(t *testing.T) {
		p, g := start(t, func(c *Config) { c.Jitter = rand.N[time.Duration] })
		var same []string
		for range 300 {
			same = append(same, "10.0.0.1")
		}
		often := byTCP
		often.PeriodSeconds = new(int32)
		*often.PeriodSeconds = 1
		g.set("10.0.0.1:5432", ok)
		p.Ask("a", asked(often, false, same...), time.Now().Add(time.Hour))
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := g.count("10.0.0.1:5432"); g.most != 1 || n > 601 || n < 400 {
			t.Errorf("got %d connections at once to one address, and %d in a minute; want 1, and from 400 to 601", g.most, n)
		}
	})
}

func TestTheLoopHearsOfEachConclusionOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changes := make(chan types.UID, 100)
		p, g := start(t, func(c *Config) { c.Changed = func(uid types.UID) { changes <- uid } })
		g.set("10.0.0.1:5432", ok)
		g.set("10.0.0.2:5432", ok)
		p.Ask("a", asked(byTCP, false, "10.0.0.1", "10.0.0.2"), time.Now().Add(time.Hour))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if len(changes) != 2 {
			t.Errorf("got %d changes of two members that answer all the time; want 2", len(changes))
		}
		g.set("10.0.0.1:5432", "")
		g.set("10.0.0.2:5432", "")
		time.Sleep(5 * time.Minute)
		expect(t, p, byTCP, "vm-0 Answering (connection refused), vm-1 Answering (connection refused), suppressed")
		if len(changes) != 3 {
			t.Errorf("%d changes, with the suspicion; want 3", len(changes))
		}
	})
}

// The text for the status is always a text of the server, whatever a guest sends.
func FuzzWhatAGuestAnswers(f *testing.F) {
	for _, seed := range []string{ok, "HTTP/1.1 503 x\r\n\r\n", "HTTP/2.0 200\r\n\r\n", "\x16\x03\x01", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n", "HTTP/1.1 000 \r\n\r\n", ""} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, answer []byte, secure bool) {
		q := question{address: netip.MustParseAddrPort("10.0.0.1:80"), http: &v1alpha1.HTTPGet{Port: 80}, timeout: 5 * time.Second}
		if secure {
			q.http.Scheme = v1alpha1.ProbeHTTPS
		}
		p := New(Config{Networks: Networks{Allowed: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, Dial: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				go func() { _, _ = io.Copy(io.Discard, far) }()
				_, _ = io.Copy(far, bytes.NewReader(answer))
				_ = far.Close()
			}()
			return near, nil
		}})
		o := p.ask(context.Background(), q)
		if code, is := strings.CutPrefix(o.failure, "HTTP status "); is {
			if len(code) > 3 || strings.Trim(code, "0123456789") != "" {
				t.Errorf("got the failure %q; want an HTTP status of at most three digits", o.failure)
			}
			return
		}
		if !slices.Contains([]string{"", "no answer by HTTP", "no answer by HTTPS", "no answer within 5 s"}, o.failure) {
			t.Errorf("got the failure %q; want none, no answer, or none within 5 s", o.failure)
		}
	})
}

func FuzzRequestsGoToTheMemberAlone(f *testing.F) {
	for _, seed := range []string{"/", "//10.0.0.9/x", "/%zz", "/a?b#c", "/http://other/", "/\\x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		g := &v1alpha1.VmGroup{Spec: v1alpha1.VmGroupSpec{Readiness: v1alpha1.Readiness{HTTPGet: &v1alpha1.HTTPGet{Port: 80, Path: path}}}}
		if strings.Contains(fmt.Sprint(g.Validate()), "spec.readiness") {
			t.Skip()
		}
		request, err := requestOf(t.Context(), question{address: netip.MustParseAddrPort("10.0.0.1:80"), http: g.Spec.Readiness.HTTPGet})
		if err != nil {
			return
		}
		var text bytes.Buffer
		if err := request.Write(&text); err != nil {
			return
		}
		again, err := http.ReadRequest(bufio.NewReader(&text))
		if err != nil || request.URL.Host != "10.0.0.1:80" || again.Host != "10.0.0.1:80" {
			t.Errorf("%q: %v, to %s", path, err, request.URL.Host)
		}
	})
}
