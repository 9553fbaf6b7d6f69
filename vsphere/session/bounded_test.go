package session

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"

	"codeconnect.vmworld.com/vmgroup/test/memnet"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	soapHead  = `<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><Body>`
	aboutHead = soapHead + `<RetrieveServiceContentResponse xmlns="urn:vim25"><returnval><rootFolder type="Folder">`
)

// endlessAnswers are the beginning of each answer, and the text that follows it repeatedly.
var endlessAnswers = map[string][2]string{
	"a text":             {aboutHead, "aaaaaaaaaaaaaaaa"},
	"a text of entities": {aboutHead, "&lt;&amp;"},
	"an attribute":       {soapHead + `<RetrieveServiceContentResponse xmlns="urn:vim25"><returnval><rootFolder type="`, "aaaaaaaaaaaaaaaa"},
	"attributes":         {soapHead + `<RetrieveServiceContentResponse xmlns="urn:vim25"`, ` a="b"`},
	"a name":             {soapHead + `<`, "aaaaaaaaaaaaaaaa"},
	"a comment":          {soapHead + `<!--`, " aaaaaaaaaaaaaaa"},
	"a fault's text":     {soapHead + `<Fault><faultcode>ServerFaultCode</faultcode><faultstring>`, "no no no "},
	"nesting":            {soapHead, "<a>"},
	"values":             {aboutHead + `</rootFolder>`, "<rootFolder/>"},
	"spaces":             {"", "                "},
	"nothing of XML":     {"", "<<<<<<<<"},
}

// pour writes an endless answer until the client stops reading, and at most a gigabyte.
func pour(w io.Writer, of [2]string) (written int64) {
	n, err := io.WriteString(w, of[0])
	for block := strings.Repeat(of[1], 1+(32<<10)/len(of[1])); err == nil && written < 1<<30; {
		written += int64(n)
		n, err = io.WriteString(w, block)
	}
	return written
}

// pourer is a server whose answers have no end, and a client of this server.
func pourer(t *testing.T, of [2]string, zip bool, poured *atomic.Int64) *Client {
	t.Helper()
	network := memnet.New()
	listener := network.Listen()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/xml")
		var to io.Writer = w
		if zip && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			zipped := gzip.NewWriter(w)
			defer zipped.Close() //nolint:errcheck // the client no longer reads
			to = zipped
		}
		poured.Add(pour(to, of))
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	c, err := New(Config{Host: "http://" + listener.Addr().String(), User: "u", Password: "a-long-password", Insecure: true, Dial: network.DialContext, Log: zerolog.Nop()})
	must.Succeed(t, err)
	t.Cleanup(func() { c.Logout(context.Background()) })
	return c
}

func TestNoAnswerOfVCentersAddressIsReadWithoutEnd(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	for name, of := range endlessAnswers {
		for _, zip := range []bool{false, true} {
			if zip && name != "a text" {
				continue // the decompressed answer has the same bound
			}
			t.Run(fmt.Sprintf("%s, compressed: %t", name, zip), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var poured atomic.Int64
					c := pourer(t, of, zip, &poured)
					_, err := c.Session(t.Context())
					e := vcfault.Classify("", err)
					if e == nil || e.Reason != vcfault.ReasonNotVCenterAPI {
						t.Fatalf("the error is %v, want NotVCenterAPI", err)
					}
					time.Sleep(time.Second)
					synctest.Wait()
					if n := poured.Load(); n > 48<<20 { // the bound is 32 MiB, and the server has filled buffers beyond what the client read
						t.Errorf("%d MiB were read: %v", n>>20, err)
					}
				})
			})
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// REST answers are JSON.
func TestNoAnswerOfTheRESTAPIIsReadWithoutEnd(t *testing.T) {
	t.Parallel()
	for name, of := range map[string][2]string{
		"a text": {`{"value":["`, "aaaaaaaa"}, "values": {`{"value":[""`, `,""`}, "objects": {`{"value":[{}`, `,{}`}, "nesting": {`{"value":`, `[`}, "spaces": {``, ` `},
	} {
		reason := vcfault.ReasonAnswerTooLarge // after a login, it is vCenter that answers
		if name == "nesting" {
			reason = vcfault.ReasonNotVCenterAPI
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := startRESTLab(t)
				cfg := l.config()
				cfg.Metrics = nil
				c, s := l.lab.client(cfg), new(Session)
				var read atomic.Int64
				c.Transport().RegisterProtocol("https", roundTrip(func(req *http.Request) (*http.Response, error) {
					if !strings.Contains(req.URL.Path, "category") {
						return l.RoundTrip(req)
					}
					r, w := io.Pipe()
					go func() { read.Add(pour(w, of)) }()
					return &http.Response{StatusCode: 200, Header: http.Header{}, Body: r, Request: req}, nil
				}))
				err := c.REST(t.Context(), s, askREST)
				e := vcfault.Classify("", err)
				if e == nil || e.Reason != reason || reason == vcfault.ReasonAnswerTooLarge && strings.Contains(e.Message, "VC_HOST") {
					t.Fatalf("the error is %v, want %s", err, reason)
				}
				synctest.Wait()
				if read := read.Load(); read > 8<<20 {
					t.Errorf("%d MiB were read", read>>20)
				}
			})
		})
	}
}

// The client must give up an answer that does not end in time, however slowly it comes.
func TestATricklingAnswerIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		res, err := xmlBounds.checked(&http.Response{StatusCode: 200, Body: r}, nil)
		must.Succeed(t, err)
		body := res.Body
		go func() {
			for {
				if _, err := w.Write([]byte("a")); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		began := time.Now()
		_, err = io.ReadAll(body)
		if e := vcfault.Classify("", err); e == nil || e.Reason != vcfault.ReasonTimeout || time.Since(began) > answerTimeout+time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		_ = body.Close()
		time.Sleep(2 * time.Second) // the server's writer notices that the client closed the body
	})
}

// A page of 500 members with 50 containers each must be within the bounds, and so must a page of members with as many networks as a page can
// have.
func TestTheLargestPageOfVCenterPasses(t *testing.T) {
	t.Parallel()
	page := types.RetrievePropertiesExResponse{Returnval: new(types.RetrieveResult)}
	nics := make([]types.GuestNicInfo, 50)
	for i := range nics {
		nics[i] = types.GuestNicInfo{Network: "VM Network", IpAddress: []string{"10.244.17.23", "fe80::1234:5678:9abc:def0"}, MacAddress: "00:50:56:ab:cd:ef", Connected: true, DeviceConfigId: 4000,
			IpConfig: &types.NetIpConfigInfo{IpAddress: []types.NetIpConfigInfoIpAddress{{IpAddress: "10.244.17.23", PrefixLength: 24, State: "preferred"}, {IpAddress: "fe80::1234:5678:9abc:def0", PrefixLength: 64, State: "preferred"}}}}
	}
	for i := range pageMost {
		page.Returnval.Objects = append(page.Returnval.Objects, types.ObjectContent{Obj: types.ManagedObjectReference{Type: "VirtualMachine", Value: fmt.Sprint("vm-", i)},
			PropSet: []types.DynamicProperty{{Name: "guest.net", Val: types.ArrayOfGuestNicInfo{GuestNicInfo: nics}}, {Name: "name", Val: "web"}}})
	}
	made, err := xml.Marshal(soap.Envelope{Body: &methods.RetrievePropertiesExBody{Res: &page}})
	must.Succeed(t, err)
	text := string(made)
	res, err := xmlBounds.checked(&http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(text))}, nil)
	must.Succeed(t, err)
	defer res.Body.Close() //nolint:errcheck // the body was only read
	n, err := io.Copy(io.Discard, res.Body)
	if err != nil || n != int64(len(text)) {
		t.Errorf("%d of %d bytes: %v; want no error and %d", n, len(text), err, int64(len(text)))
	}
	b := res.Body.(*boundedBody)
	t.Logf("%d MiB, %d tags", n>>20, b.had)
}
