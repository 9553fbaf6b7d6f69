package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	_ "github.com/vmware/govmomi/pbm/simulator" // as govmomi's command vcsim has it
	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator" // as govmomi's command vcsim has it

	"codeconnect.vmworld.com/vmgroup/test/e2e/cluster"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

const (
	// servesVCenter names the variable that makes this binary serve a vCenter, and run no test. Its value has the kind, the address, and the
	// durations of clones and of power operations.
	servesVCenter = "E2E_VCENTER"
	// figuresVCenter names the variable with the URL of a vCenter to measure instead, https://user:password@host/sdk. The vCenter must have
	// the template.
	figuresVCenter = "FIGURES_VCENTER"
)

const template = "vm-operator-template"

// kind is a kind of vCenter. With events, the server learns that a lost member was destroyed, and clones another.
type kind struct {
	name   string
	events bool
	serve  func(listen string, clone, power time.Duration) error
}

var kinds = []kind{{"embedded", true, serveEmbedded}, {"plain", false, servePlain}}

func serveVCenter(what string) error {
	var name, listen, clone, power string
	if _, err := fmt.Sscan(what, &name, &listen, &clone, &power); err != nil {
		return err
	}
	cloneTime, err := time.ParseDuration(clone)
	if err != nil {
		return err
	}
	powerTime, err := time.ParseDuration(power)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		if k.name == name {
			if err := k.serve(listen, cloneTime, powerTime); err != nil {
				return err
			}
			select {}
		}
	}
	return fmt.Errorf("there is no vCenter of kind %q", name)
}

func serveEmbedded(listen string, clone, power time.Duration) error {
	_, err := vcsim.Start(vcsim.Config{Listen: listen, Templates: []string{template}, Latency: vcsim.Latency{Clone: clone, Power: power}})
	return err
}

// servePlain serves govmomi's own simulator, as its command vcsim does. Its tasks lock nothing while they take their time.
func servePlain(listen string, clone, power time.Duration) error {
	m := simulator.VPX()
	m.Host, m.Machine, m.Autostart = 0, 1, false
	if err := m.Create(); err != nil {
		return err
	}
	m.Service.RegisterEndpoints, m.Service.TLS, m.Service.Listen = true, new(tls.Config), &url.URL{Host: listen, User: login}
	s := m.Service.NewServer()
	ctx := context.Background()
	client, err := govmomi.NewClient(ctx, s.URL, true)
	if err != nil {
		return err
	}
	vm, err := find.NewFinder(client.Client).VirtualMachine(ctx, "*")
	if err != nil {
		return err
	}
	if err := wait(ctx)(vm.Rename(ctx, template)); err != nil {
		return err
	}
	if err := vm.MarkAsTemplate(ctx); err != nil {
		return err
	}
	powerMS := int(power.Milliseconds())
	simulator.TaskDelay.MethodDelay = map[string]int{"LockHandoff": 0, "CloneVm": int(clone.Milliseconds()), "PowerOn": powerMS, "PowerOff": powerMS}
	return nil
}

// login is an account that both simulators accept.
var login = url.UserPassword("user", "pass")

// wait waits for the end of a task that a call began.
func wait(ctx context.Context) func(*object.Task, error) error {
	return func(task *object.Task, err error) error {
		if err != nil {
			return err
		}
		return task.Wait(ctx)
	}
}

// vcenterOf starts a vCenter of a kind in a process of its own, until the test ends. It does not start the vCenter of FIGURES_VCENTER.
func (r *rig) vcenterOf(t *testing.T, k kind, clone, power time.Duration) *url.URL {
	t.Helper()
	if k.serve == nil {
		u, err := url.Parse(os.Getenv(figuresVCenter))
		if err != nil {
			t.Fatalf("%s is not a URL", figuresVCenter) // err is left out, because it has the URL with the password
		}
		return u
	}
	self, err := os.Executable()
	must.Succeed(t, err)
	ports, err := cluster.FreePorts(1)
	must.Succeed(t, err)
	listen := fmt.Sprintf("127.0.0.1:%d", ports[0])
	p, err := cluster.Start(r.Dir, "vcenter", append([]string{servesVCenter + "=" + fmt.Sprint(k.name, " ", listen, " ", clone, " ", power)}, cluster.Unmeasured...), self)
	must.Succeed(t, err)
	r.simulator = p
	t.Cleanup(func() { p.Kill(); r.simulator = nil })
	u := &url.URL{Scheme: "https", Host: listen, User: login, Path: "/sdk"}
	must.Succeed(t, p.Await(func() error { return hasTemplate(u) }))
	return u
}

// hasTemplate reports what is wrong with a vCenter that has no template yet.
func hasTemplate(u *url.URL) error {
	ctx := context.Background()
	client, err := govmomi.NewClient(ctx, u, true)
	if err != nil {
		return err
	}
	defer client.Logout(ctx) //nolint:errcheck // the session only read
	_, err = find.NewFinder(client.Client).VirtualMachine(ctx, template)
	return err
}

// rest waits until the simulator is idle: for each change, govmomi's simulator collects again all objects that a stream watches, even a
// stream whose client is gone, and keeps one processor busy.
func (r *rig) rest(t *testing.T) {
	t.Helper()
	if r.simulator == nil {
		return
	}
	began := time.Now()
	for busy := r.simulator.Busy(); time.Since(began) < 5*time.Minute; {
		time.Sleep(time.Second)
		now := r.simulator.Busy()
		if now-busy <= 20*time.Millisecond {
			break
		}
		busy = now
	}
	t.Logf("the simulator was busy for %.0f s more", time.Since(began).Seconds())
}
