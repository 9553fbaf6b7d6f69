package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// demoManifest is what the demo applies without a file.
//
//go:embed demo.yaml
var demoManifest []byte

// demo is the server with the embedded vCenter, and the stand-in for Metacontroller that calls it for the groups in the user's files.
type demo struct {
	serve serveSettings
	manifests
	url string

	groups map[string]*demoGroup // by namespace/name
	fault  string                // why the last read of the files failed
	read   []byte                // their text as last read
	ending bool                  // after Ctrl-C
}

// demoGroup is a group, and its latest state.
type demoGroup struct {
	*metacontroller.Group
	due      time.Time // when the hook is to be called next
	failed   string    // why the last call failed
	deleting bool
	report   plan.Report
}

func demoCommand() *cobra.Command {
	d := &demo{groups: make(map[string]*demoGroup)}
	c := &cobra.Command{
		Use:   "demo [-f group.yaml]",
		Short: "Watch a VmGroup live, with an embedded vCenter and without a cluster",
		Long: `demo serves the hooks with an embedded vCenter, acts as Metacontroller for the VmGroups in the manifests,
and shows their members as they are cloned, powered on and ready. Edit the file and save it: the members
follow. Ctrl-C deletes the groups, and ends when their VMs are gone; a second Ctrl-C ends at once.

Without -f it writes a sample to a file of its own, and prints its path. User data comes from Secrets and
ConfigMaps in the files. Clones take a few seconds, so that there is something to see.`,
		Example: `  vmgroup demo
  vmgroup demo -f group.yaml --clone-time 20s`,
		RunE: func(c *cobra.Command, _ []string) error {
			return d.run(c.Context(), c.InOrStdin(), c.OutOrStdout())
		},
	}
	s := &d.serve
	f := c.Flags()
	f.SortFlags = false
	d.manifests.flags(c, "file with VmGroup manifests")
	f.StringVar(&s.listeners.listen, "listen", "127.0.0.1:8080", "loopback address of the hooks")
	f.DurationVar(&s.sim.Latency.Clone, "clone-time", 4*time.Second, "how long a clone takes")
	f.DurationVar(&s.sim.Latency.Power, "power-time", time.Second, "how long a power-on or power-off takes")
	f.DurationVar(&s.sim.Guest.Boot, "boot-time", 3*time.Second, "how long a guest takes until it has an address")
	section(f, "Demo")
	s.listeners.loopbackOnly = true
	s.simulator, s.slots, s.resync, s.lease, s.events = true, 32, 45*time.Second, 90*time.Second, true
	s.vcenter.Folder = "vm-operator"
	return c
}

func (d *demo) run(ctx context.Context, in io.Reader, out io.Writer) error {
	if slices.Contains(d.files, "-") {
		return usageError{errors.New("--file -: the demo reads its files again when they change, so it can't use standard input")}
	}
	if len(d.files) == 0 {
		dir, err := os.MkdirTemp("", "vmgroup-demo-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a leftover of a few bytes
		d.files = []string{filepath.Join(dir, "group.yaml")}
		if err := os.WriteFile(d.files[0], demoManifest, 0o600); err != nil {
			return err
		}
	}
	if d.apply(); d.fault != "" {
		return usageError{errors.New(d.fault)}
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var ended sync.WaitGroup
	urls, failed := make(chan string, 1), make(chan error, 1)
	ended.Go(func() {
		failed <- d.serve.run(serving, zerolog.Nop(), newRegistry(), func(open *opened) { urls <- "http://" + open.hooks.Addr().String() })
	})
	calls, giveUp := context.WithCancel(context.WithoutCancel(ctx)) // the deletion continues after Ctrl-C
	defer giveUp()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		<-signals // main ends ctx
		<-signals
		giveUp()
	}()
	defer func() {
		if stop(); calls.Err() == nil {
			ended.Wait()
		}
	}()
	select {
	case <-calls.Done():
		return errors.New("ended before the demo began")
	case d.url = <-urls:
	case err := <-failed:
		return err
	}
	return d.play(ctx, calls, newDemoView(out), failed)
}

// Metacontroller calls after the time in the answer, and whenever a child changes: here, always after a second.
// The demo looks at files and reports more often.
const (
	demoResync = time.Second
	demoTick   = 250 * time.Millisecond
)

// play calls the hooks until ctx has ended and all groups are deleted, or until calls ends.
func (d *demo) play(ctx, calls context.Context, view *demoView, failed <-chan error) error {
	defer view.end()
	for {
		if ctx.Err() == nil {
			d.apply()
		} else {
			if !d.ending {
				d.ending = true
				view.tell("Ctrl-C: deleting the groups; a second one ends at once")
			}
			for _, g := range d.groups {
				g.delete()
			}
		}
		for name, g := range d.groups {
			if d.call(calls, g) {
				delete(d.groups, name)
				view.tell(name + " is deleted: vCenter has no objects of it any more")
			}
		}
		view.show(d)
		if ctx.Err() != nil && len(d.groups) == 0 {
			return nil
		}
		select {
		case err := <-failed:
			return err
		case <-calls.Done():
			return d.left()
		case <-time.After(demoTick):
		}
	}
}

// left says which groups are left, and what their deletion waits for.
func (d *demo) left() (err error) {
	for _, g := range d.sorted() {
		err = errors.Join(err, fmt.Errorf("%s/%s was not deleted yet: %s", g.Namespace, g.Name, cmp.Or(g.failed, g.Status.LastMessage)))
	}
	return err
}

// apply reads the files, if they changed, and does what `kubectl apply` would; it deletes a group that they no longer contain.
func (d *demo) apply() {
	var text []byte
	for _, file := range d.files {
		some, err := os.ReadFile(file)
		if err != nil {
			d.fault = err.Error()
			return
		}
		text = append(append(text, file...), some...)
	}
	if bytes.Equal(text, d.read) {
		return
	}
	d.read, d.fault = text, ""
	var related []metacontroller.Related
	groups, err := d.manifests.read(nil, func(o *other) {
		if o.APIVersion == "v1" && (o.Kind == "Secret" || o.Kind == "ConfigMap") {
			related = append(related, relatedOf(o))
		}
	})
	if err == nil {
		for _, g := range groups {
			if problems := g.Validate(); len(problems) > 0 {
				for _, problem := range problems {
					err = errors.Join(err, fmt.Errorf("%s/%s: %w", g.Namespace, g.Name, problem))
				}
			}
		}
	}
	if err != nil {
		d.fault = err.Error()
		return
	}
	wanted := make(map[string]bool)
	for _, g := range groups {
		name := g.Namespace + "/" + g.Name
		wanted[name] = true
		d.applyOne(name, g, related)
	}
	for name, g := range d.groups {
		if !wanted[name] {
			g.delete()
		}
	}
}

func (d *demo) applyOne(name string, g *v1alpha1.VmGroup, related []metacontroller.Related) {
	here := d.groups[name]
	if here == nil {
		here = &demoGroup{Group: &metacontroller.Group{VmGroup: *g}}
		here.UID, here.Generation = types.UID(uuid.NewString()), 1
		d.groups[name] = here
	}
	here.Related = related
	if !here.deleting && !equality.Semantic.DeepEqual(here.Spec, g.Spec) {
		here.Spec = g.Spec
		here.Generation++
		here.due = time.Time{}
	}
	here.Labels, here.Annotations = g.Labels, g.Annotations
}

// relatedOf returns a Secret or ConfigMap, with its data in plain text.
func relatedOf(o *other) metacontroller.Related {
	var object struct {
		Data       map[string]json.RawMessage
		StringData map[string]string
	}
	r := metacontroller.Related{Kind: o.Kind, Name: o.Metadata.Name, Data: make(map[string]string)}
	if json.Unmarshal(o.text, &object) != nil {
		return r
	}
	for key, value := range object.Data {
		var text string
		var raw []byte
		if o.Kind == "Secret" && json.Unmarshal(value, &raw) == nil {
			text = string(raw)
		} else {
			_ = json.Unmarshal(value, &text)
		}
		r.Data[key] = text
	}
	for key, text := range object.StringData {
		r.Data[key] = text
	}
	return r
}

func (g *demoGroup) delete() {
	if !g.deleting {
		g.deleting, g.due = true, time.Time{}
	}
}

// call calls the hook if it is due, and reads the group's state. It reports whether the group is gone.
func (d *demo) call(ctx context.Context, g *demoGroup) (gone bool) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // like Metacontroller
	defer cancel()
	g.URL = d.url
	if now := time.Now(); !now.Before(g.due) {
		hook := g.Sync
		if g.deleting {
			hook = g.Finalize
		}
		a, err := hook(ctx)
		g.due, g.failed = now.Add(demoResync), ""
		if err != nil {
			g.failed = err.Error()
		} else if a.Finalized {
			return true
		}
	}
	if report, err := d.reportOf(ctx, g.Namespace, g.Name); err == nil {
		g.report = report
	}
	return false
}

// reportOf asks the server for the group's report.
func (d *demo) reportOf(ctx context.Context, namespace, name string) (r plan.Report, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+"/groups/"+namespace+"/"+name, http.NoBody)
	if err != nil {
		return r, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return r, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK {
		return r, errors.New(response.Status)
	}
	return r, json.NewDecoder(response.Body).Decode(&r)
}

// sorted returns the groups by namespace and name.
func (d *demo) sorted() []*demoGroup {
	all := make([]*demoGroup, 0, len(d.groups))
	for _, g := range d.groups {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *demoGroup) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return all
}
