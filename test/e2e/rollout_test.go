package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/e2e/cluster"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// front stands for the Service: it passes new connections to the server that is its endpoint now. Connections that exist stay where they
// are, as with kube-proxy.
type front struct {
	net.Listener
	to atomic.Pointer[string]
}

func newFront(t *testing.T, to string) *front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	f := &front{Listener: l}
	f.to.Store(&to)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.pass(c.(*net.TCPConn))
		}
	}()
	return f
}

func (f *front) pass(c *net.TCPConn) {
	defer c.Close() //nolint:errcheck // both ends are done
	s, err := net.Dial("tcp", *f.to.Load())
	if err != nil {
		_ = c.SetLinger(0) // the client sees a reset, as for a Service without endpoints
		return
	}
	defer s.Close() //nolint:errcheck // both ends are done
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(s, c)
		_ = s.(*net.TCPConn).CloseWrite()
		close(done)
	}()
	_, _ = io.Copy(c, s)
	_ = c.CloseWrite()
	<-done
}

// syncErrors returns the messages of the Events SyncError in a namespace, and how often all of them were seen.
func (r *rig) syncErrors(t *testing.T, namespace string) (n int, messages []string) {
	t.Helper()
	var list struct{ Items []event }
	must.Succeed(t, json.Unmarshal([]byte(r.kubectl(t, "-n", namespace, "get", "events", "--field-selector=reason=SyncError", "-o", "json")), &list))
	for _, e := range list.Items {
		n += max(1, e.Count)
		messages = append(messages, e.Message)
	}
	return n, messages
}

// A rollout replaces the server as the Deployment does: the next server is ready, then the Service leads to it, and then the former one
// ends. No call may fail, or each group gets a Warning.
func TestARolloutOfTheServerCutsNoCall(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "rollout")
	const groups = 20
	var all strings.Builder
	for i := range groups {
		fmt.Fprintf(&all, "---\napiVersion: vm.codeconnect.vmworld.com/v1alpha1\nkind: VmGroup\nmetadata: {name: g%d}\nspec: {cpu: 1, memory: 1, replicas: 1, template: vm-operator-template}\n", i)
	}
	f := newFront(t, r.hooks)
	behind := r.hooks
	r.hooks = f.Addr().String()
	r.applyController(t, overlay(t, "components/metacontroller-rights"))
	r.kubectlWith(t, all.String(), "-n", namespace, "apply", "-f", "-")
	for i := range groups {
		r.settled(t, namespace, fmt.Sprintf("g%d", i), 1)
	}
	r.hooks = behind
	before, _ := r.syncErrors(t, namespace)
	for range 3 {
		former := r.server
		ports, err := cluster.FreePorts(2)
		must.Succeed(t, err)
		r.hooks, r.health = fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
		r.startServer(t)
		at := r.hooks
		f.to.Store(&at)
		time.Sleep(5 * time.Second) // preStop
		must.Succeed(t, former.Stop())
		time.Sleep(2 * resync)
	}
	if n, messages := r.syncErrors(t, namespace); n > before {
		t.Errorf("%d calls failed: %.500q", n-before, messages)
	}
	r.kubectl(t, "-n", namespace, "delete", "vg", "--all", "--timeout=2m")
	r.applyController(t, overlay(t, "components/metacontroller-rights")) // to the server itself again
}
