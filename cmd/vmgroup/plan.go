package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

type planSettings struct {
	settings
	remote                  remote
	file, output, namespace string
	remove                  bool
	timeout                 time.Duration
}

func planCommand() *cobra.Command {
	s := &planSettings{}
	c := &cobra.Command{
		Use:   "plan -f group.yaml [--server URL]",
		Short: "Preview the steps for a VmGroup, and do nothing",
		Long: `plan reads VmGroup manifests and shows the steps that lead to their desired state, each with its
reason. With --server it asks a running server; otherwise it looks at vCenter itself.

plan finds an existing group by the manifest's metadata.uid (kubectl get vg web -o yaml), or else by the
namespace and name in its members' stamps. Only the server that Metacontroller calls for the group
knows its user data (spec.userData): ask it with --server.`,
		Example: `  vmgroup plan -f group.yaml --server http://127.0.0.1:8080
  vmgroup plan -f group.yaml --server https://127.0.0.1:8443 --tls-server-name vmgroup.vmgroup-system.svc \
    --server-ca-file ca.crt --server-token-file token
  kubectl get vg web -o yaml | vmgroup plan -f - --delete -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := fromEnvironment(c); err != nil {
				return err
			}
			return s.run(c.Context(), c.InOrStdin(), c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&s.file, "file", "f", "", "file with VmGroup manifests, in YAML or JSON; - for standard input")
	_ = c.MarkFlagRequired("file")
	_ = c.MarkFlagFilename("file", "yaml", "yml", "json")
	s.remote.flags(c)
	f.StringVarP(&s.output, "output", "o", "table", "table or json")
	f.StringVarP(&s.namespace, "namespace", "n", "default", "namespace for manifests without one")
	f.BoolVar(&s.remove, "delete", false, "preview deleting the group")
	f.DurationVar(&s.timeout, "timeout", time.Minute, "how long to wait for an answer")
	complete(c, "output", "table", "json")
	s.settings.flags(c)
	return c
}

func (s *planSettings) run(ctx context.Context, in io.Reader, out io.Writer) error {
	if s.output != "table" && s.output != "json" {
		return usageError{fmt.Errorf("--output %q: must be table or json", s.output)}
	}
	groups, err := s.read(in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	ask, done, err := s.asker(ctx)
	if err != nil {
		return err
	}
	defer done()
	answers := make([]hook.PlanAnswer, 0, len(groups))
	for _, g := range groups {
		if s.remove && g.DeletionTimestamp.IsZero() { // without it, nothing is removed
			now := metav1.Now()
			g.DeletionTimestamp = &now
		}
		a, err := ask(ctx, g)
		if err != nil {
			return fmt.Errorf("plan %s/%s: %w", g.Namespace, g.Name, err)
		}
		answers = append(answers, a)
	}
	if s.output == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(answers)
	}
	return table(out, answers)
}

// read reads the manifests strictly: an unknown field is an error.
func (s *planSettings) read(in io.Reader) ([]*v1alpha1.VmGroup, error) {
	if s.file != "-" {
		f, err := os.Open(s.file)
		if err != nil {
			return nil, usageError{fmt.Errorf("--file: %w", err)}
		}
		defer f.Close() //nolint:errcheck // it was only read
		in = f
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(in))
	var groups []*v1alpha1.VmGroup
	for n := 1; ; n++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read %s: %w", s.file, err)
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		g := &v1alpha1.VmGroup{}
		if err := unmarshalStrict(text, g); err != nil {
			return nil, fmt.Errorf("%s, document %d: %w", s.file, n, err)
		}
		if g.Kind != v1alpha1.Kind || g.APIVersion != v1alpha1.GroupVersion.String() {
			return nil, fmt.Errorf("%s, document %d: is a %s of %q, not a VmGroup of %s", s.file, n, g.Kind, g.APIVersion, v1alpha1.GroupVersion)
		}
		if g.Namespace == "" {
			g.Namespace = s.namespace
		}
		groups = append(groups, g)
	}
	if len(groups) == 0 {
		return nil, usageError{fmt.Errorf("--file %s holds no VmGroup", s.file)}
	}
	return groups, nil
}

// unmarshalStrict decodes like an API server with strict field validation.
func unmarshalStrict(text []byte, into any) error {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	strict, err := kjson.UnmarshalStrict(asJSON, into)
	return errors.Join(append(strict, err)...)
}

// asker returns the function that plans a group: it asks a running server, or looks at vCenter.
func (s *planSettings) asker(ctx context.Context) (ask func(context.Context, *v1alpha1.VmGroup) (hook.PlanAnswer, error), done func(), err error) {
	if s.remote.server == "" {
		return s.lookDirectly(ctx)
	}
	ask, err = s.remote.asker(s.remove)
	return ask, func() {}, err
}

// lookDirectly connects to vCenter and waits until its inventory was read. The loop never runs, so nothing is ever done.
func (s *planSettings) lookDirectly(ctx context.Context) (ask func(context.Context, *v1alpha1.VmGroup) (hook.PlanAnswer, error), done func(), err error) {
	log, err := s.logger(os.Stderr)
	if err != nil {
		return nil, nil, err
	}
	changed := make(chan struct{}, 1)
	s.vcenter.Changed = func(types.UID) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	vc, closeSimulator, err := s.connect(log)
	if err != nil {
		return nil, nil, err
	}
	groups := loop.New(loop.Config{Slots: 1, Lease: time.Minute, Resync: time.Minute, Log: log}, vc)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var ended sync.WaitGroup
	ended.Go(func() { _ = vc.Run(running) })
	done = func() {
		stop()
		ended.Wait()
		closeSimulator()
	}
	for !vc.WasRead() {
		state := vc.State(plan.Ref{}, plan.Query{})
		if state.Trouble != nil && state.Trouble.Person {
			done()
			return nil, nil, errors.New(state.Trouble.Message)
		}
		select {
		case <-changed:
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			done()
			if state.Trouble != nil {
				return nil, nil, errors.New(state.Trouble.Message)
			}
			return nil, nil, fmt.Errorf("vCenter's inventory was not read within --timeout (%s)", s.timeout)
		}
	}
	return func(_ context.Context, g *v1alpha1.VmGroup) (hook.PlanAnswer, error) {
		call := plan.Call{Group: g, Finalizing: s.remove, Related: plan.NoRelated(g)}
		result, outlook, err := groups.Preview(call)
		return hook.Answer(call.Ref(), &result, &outlook), err
	}, done, nil
}

func table(out io.Writer, answers []hook.PlanAnswer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for i, a := range answers {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s is %s: %s\n", plan.Printable(a.Group), plan.Printable(string(a.Phase)), plan.Printable(a.Message))
		if len(a.Steps) == 0 {
			fmt.Fprintln(w, "nothing to do")
			continue
		}
		fmt.Fprintln(w, "ROUND\tACTION\tVM\tREASON")
		for i, s := range a.Steps {
			if s.AfterSeconds > 0 && (i == 0 || a.Steps[i-1].Round != s.Round) {
				fmt.Fprintf(w, "%d\t-\t-\twait %s\n", s.Round, (time.Duration(s.AfterSeconds) * time.Second).Round(time.Second))
			}
			vm := s.VM
			if vm == "" {
				vm = "-"
			}
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", s.Round, plan.Printable(string(s.Op)), plan.Printable(vm), plan.Printable(s.Reason))
		}
		if a.More {
			fmt.Fprintln(w, "… and more")
		}
	}
	return w.Flush()
}
