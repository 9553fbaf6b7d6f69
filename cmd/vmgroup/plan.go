package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/probe"
	"codeconnect.vmworld.com/vmgroup/vsphere"
)

type planSettings struct {
	settings
	manifests
	remote  remote
	output  string
	remove  bool
	quiet   bool // write no log
	direct  bool // the command line names a vCenter: plan connects to it, also in the server's own container
	timeout time.Duration
}

func planCommand() *cobra.Command {
	s := &planSettings{}
	c := &cobra.Command{
		Use:   "plan group.yaml... [--server URL]",
		Short: "Preview the steps for a VmGroup, without carrying them out",
		Long: `plan reads VmGroup manifests and shows the steps that lead to their desired state, each with its
reason, and what blocks them: it also checks that what a clone needs exists. With --server it asks a
running server. In the server's own container it asks that server. Otherwise it connects to vCenter itself.

The exit status is 0 if there is nothing to do, 2 if there is something to do, and 1 after an error, or if
something blocks a group: then the summary says what the steps would be otherwise.

plan finds an existing group by the manifest's metadata.uid (kubectl get vg web -o yaml), or by the
namespace and name in its members' stamps. It takes the user data (spec.userData) from a Secret or
ConfigMap among the manifests. Otherwise use --server: only that server knows the user data.`,
		Example: `  vmgroup plan group.yaml --server http://127.0.0.1:8080
  vmgroup plan group.yaml --server https://127.0.0.1:8443 --tls-server-name vmgroup.vmgroup-system.svc \
    --server-ca-file ca.crt --server-token-file token
  kubectl get vg web -o yaml | vmgroup plan -f - --delete -o json
  kubectl -n vmgroup-system exec -i deploy/vmgroup -- /vmgroup plan -f - <group.yaml`,
		RunE: func(c *cobra.Command, _ []string) error {
			s.quiet = !c.Flags().Changed("log-level")
			s.direct = typed(c, "host") || typed(c, "simulator")
			if s.direct && typed(c, "server") {
				return usageError{errors.New("--server asks a running server, and --host or --simulator connect to a vCenter: set only one of them")}
			}
			return s.run(c.Context(), c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.SortFlags = false
	s.manifests.flags(c, "file with VmGroup manifests")
	f.StringVarP(&s.output, "output", "o", "table", "table, json or yaml")
	f.BoolVar(&s.remove, "delete", false, "preview deleting the group")
	f.DurationVar(&s.timeout, "timeout", time.Minute, "how long to wait for an answer")
	complete(c, "output", "table", "json", "yaml")
	section(f, "Plan")
	s.remote.flags(c, "the server in the same container; without one, plan connects to vCenter itself")
	s.settings.flags(c)
	return c
}

func (s *planSettings) run(ctx context.Context, in io.Reader, out, notes io.Writer) error {
	show, known := map[string]func(io.Writer, []hook.PlanAnswer) error{"table": planTable, "json": planJSON, "yaml": planYAML}[s.output]
	if !known {
		return usageError{fmt.Errorf("--output %q: must be table, json or yaml", s.output)}
	}
	if len(s.files) == 0 {
		return usageError{errors.New("name a file with VmGroup manifests, such as vmgroup plan group.yaml")}
	}
	note := func(text string) { fmt.Fprintln(notes, "vmgroup:", plan.Printable(text)) }
	var data []*other
	groups, err := s.read(in, func(o *other) {
		if o.holdsData() {
			data = append(data, o)
		} else {
			note(o.note())
		}
	})
	if err != nil {
		return err
	}
	noteSharedClaims(groups, note)
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	ask, done, err := s.asker(ctx, note)
	if err != nil {
		return err
	}
	defer done()
	answers := make([]hook.PlanAnswer, 0, len(groups))
	for _, g := range groups {
		if s.remove && g.DeletionTimestamp.IsZero() { // without it, nothing is removed
			now := metav1.Now()
			g.DeletionTimestamp = &now
			if g.Generation > 0 { // the deletion has one of its own
				g.Generation++
			}
		}
		related, err := s.related(g, data)
		if err != nil {
			return err
		}
		a, err := ask(ctx, g, related)
		if err != nil {
			return fmt.Errorf("plan %s/%s: %w", g.Namespace, g.Name, err)
		}
		if s.remove && a.New && !slices.ContainsFunc(a.Steps, func(step hook.PlanStep) bool { return step.VM != "" }) {
			a.Message, a.Steps = "the group doesn't exist, so there is nothing to delete", []hook.PlanStep{}
		}
		answers = append(answers, a)
	}
	if err := show(out, answers); err != nil {
		return err
	}
	return verdict(answers)
}

// noteSharedClaims says which groups of the manifests have addresses of a group before them. A server can only compare groups that are applied.
func noteSharedClaims(groups []*v1alpha1.VmGroup, note func(string)) {
	claims, byNetwork := make([][]plan.Claim, len(groups)), map[string][]int{}
	for i, g := range groups {
		claims[i] = plan.ClaimsOf(g)
		shared := ""
		for c := range claims[i] {
			at := claims[i][c].LastName()
			for _, j := range byNetwork[at] {
				if other := groups[j]; shared == "" && j != i {
					shared = plan.SharedClaim(claims[i], claims[j], "the group "+other.Namespace+"/"+other.Name)
				}
			}
			byNetwork[at] = append(byNetwork[at], i)
		}
		if shared != "" {
			note(g.Namespace + "/" + g.Name + ": " + shared + " (" + plan.ReasonDuplicateAddress + ")")
		}
	}
}

// verdict is the exit status of a preview, like that of Terraform's -detailed-exitcode.
func verdict(answers []hook.PlanAnswer) error {
	switch {
	case slices.ContainsFunc(answers, func(a hook.PlanAnswer) bool { return len(a.Blocked) > 0 }):
		return exitStatus(1)
	case slices.ContainsFunc(answers, func(a hook.PlanAnswer) bool { return len(a.Steps) > 0 }):
		return exitStatus(2)
	}
	return nil
}

// asker plans a group. related are the related objects that Metacontroller would send; nil if unknown.
type asker func(ctx context.Context, g *v1alpha1.VmGroup, related json.RawMessage) (hook.PlanAnswer, error)

// asker returns the function that plans a group: it asks a running server, or looks at vCenter.
func (s *planSettings) asker(ctx context.Context, note func(string)) (ask asker, done func(), err error) {
	if s.remote.server == "" && !s.direct {
		s.remote.findHere(os.Getenv, note)
	}
	if s.remote.server == "" || s.direct {
		return s.lookDirectly(ctx)
	}
	ask, err = s.remote.asker(s.remove)
	return ask, func() {}, err
}

// open connects to vCenter and waits until its inventory has been read.
func (s *planSettings) open(ctx context.Context) (vc *vsphere.VCenter, log zerolog.Logger, done func(), err error) {
	log, err = s.logger(os.Stderr)
	if err != nil {
		return nil, log, nil, err
	}
	if s.quiet { // only the plan is printed
		log = zerolog.Nop()
	}
	changed := make(chan struct{}, 1)
	s.vcenter.Changed = func(types.UID) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	if s.vcenter.Host == "" && !s.simulator {
		return nil, log, nil, usageError{errors.New("plan needs a running server or a vCenter: set --server http://127.0.0.1:8080 (VMGROUP_SERVER) or --host (VC_HOST)")}
	}
	vc, closeSimulator, err := s.connect(log)
	if err != nil {
		return nil, log, nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var ended sync.WaitGroup
	ended.Go(func() { _ = vc.Run(running) })
	done = func() {
		stop()
		ended.Wait()
		closeSimulator()
	}
	if err := s.awaitInventory(ctx, vc, changed); err != nil {
		done()
		return nil, log, nil, err
	}
	return vc, log, done, nil
}

// lookDirectly plans with vCenter itself. The loop never runs, so plan changes nothing.
func (s *planSettings) lookDirectly(ctx context.Context) (ask asker, done func(), err error) {
	vc, log, done, err := s.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	groups := loop.New(loop.Config{Slots: 1, Lease: time.Minute, Resync: time.Minute, Log: log, Prober: probe.New(s.probe)}, vc) // the prober doesn't run, so it probes no member
	return func(ctx context.Context, g *v1alpha1.VmGroup, related json.RawMessage) (hook.PlanAnswer, error) {
		vc.Resolve(ctx, g)
		data, err := hook.UserData(g, related)
		if err != nil {
			return hook.PlanAnswer{}, err
		}
		call := plan.Call{Group: g, Finalizing: s.remove, Related: data}
		result, outlook, err := groups.Preview(call)
		if err != nil {
			return hook.PlanAnswer{}, err
		}
		answer := hook.Answer(ctx, vc, call.Ref(), &result, &outlook)
		for i := range answer.Blocked {
			if b := &answer.Blocked[i]; b.Reason == plan.ReasonTemplateNotFound {
				b.Message += isVM(vc, g.Spec.Template)
			}
		}
		return answer, nil
	}, done, nil
}

// isVM says that spec.template names a VM, not a template. Only plan says so, because its user has the vCenter account: a server tells
// authors of groups nothing about other VMs.
func isVM(vc *vsphere.VCenter, template string) string {
	inventory := vc.Parts().Inventory
	if _, _, vm := inventory.FindTemplate(inventory.OwnFolder(), template, nil); vm != "" {
		return "; " + vm + " is a VM: convert it to a template, or name another"
	}
	return ""
}

// awaitInventory waits until vCenter's inventory has been read. changed signals that the inventory may have changed.
func (s *planSettings) awaitInventory(ctx context.Context, vc *vsphere.VCenter, changed <-chan struct{}) error {
	for !vc.WasRead() {
		fault := vc.State(plan.Ref{}, plan.Query{}).Fault
		if fault != nil && fault.NeedsOperator {
			return errors.New(fault.Message)
		}
		select {
		case <-changed:
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			if fault != nil {
				return errors.New(fault.Message)
			}
			return fmt.Errorf("vCenter's inventory was not read within --timeout (%s)", s.timeout)
		}
	}
	return nil
}
