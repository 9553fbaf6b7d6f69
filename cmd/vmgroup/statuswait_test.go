package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/page"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// --wait ends as kubectl rollout status does: with 0 once the group is as its spec says, and otherwise when nothing changes by itself.
func TestStatusWaitsForAGroup(t *testing.T) {
	t.Parallel()
	p := serveReady(t, against(startVCenter(t, vcsim.Config{})))
	good, bad := metacontroller.New(p.url, "shop", "web", "uid-web", 2), metacontroller.New(p.url, "shop", "bad", "uid-bad", 1)
	bad.Spec.Template = "nope"
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_, err := good.Sync(ctx)
	must.Succeed(t, err)
	called := make(chan error, 1)
	go func() {
		_, err := good.Until(ctx, metacontroller.Running)
		called <- err
	}()
	out, errs, status := run(t, vmgroup(nil, "status", "--server", p.url, "web", "--wait"))
	if status != 0 || !strings.Contains(out, "shop/web: running, 2 of 2 ready") {
		t.Errorf("a group that settles: exit status %d: %s%s", status, out, errs)
	}
	must.Succeed(t, <-called)
	for range 2 {
		_, err = bad.Sync(ctx)
		must.Succeed(t, err)
	}
	eventually(t, "the group waits for an operator", func() bool {
		_, _, status := run(t, vmgroup(nil, "status", "--server", p.url, "bad", "-o", "json"))
		answer, err := bad.Sync(ctx)
		must.Succeed(t, err)
		return status == 0 && answer.Status.Phase == "ERROR"
	})
	out, errs, status = run(t, vmgroup(nil, "status", "--server", p.url, "bad", "--wait"))
	if status != 1 || !strings.Contains(errs, "shop/bad waits for you") || !strings.Contains(errs, "TemplateNotFound: If the group has members, bring the template back") {
		t.Errorf("a group that waits for an operator: exit status %d: %s%s", status, out, errs)
	}
	out, errs, status = run(t, vmgroup(nil, "status", "--server", p.url, "web", "--wait=1ms", "--generation", "9"))
	if status != 1 || !strings.Contains(out, "waiting for Metacontroller to call") || !strings.Contains(errs, "after 1ms") {
		t.Errorf("a newer spec that isn't there: exit status %d: %s%s", status, out, errs)
	}
	out, errs, status = run(t, vmgroup(nil, "status", "--server", p.url, "shop/new", "--wait=1ms", "--generation", "1"))
	if status != 1 || !strings.Contains(out, "waiting for Metacontroller to call the server") || !strings.Contains(errs, "after 1ms") {
		t.Errorf("a new group that kubectl knows: exit status %d: %s%s", status, out, errs)
	}
	if _, errs, status = run(t, vmgroup(nil, "status", "--server", p.url, "shop/new", "--wait")); status != 1 || !strings.Contains(errs, "is not known") {
		t.Errorf("an unknown group: exit status %d: %s", status, errs)
	}
	must.Succeed(t, deleted(t, good, p.url))
	for _, wrong := range [][]string{{"--wait"}, {"web", "--wait", "-w"}} {
		if _, errs, status := run(t, vmgroup(nil, append([]string{"status", "--server", p.url}, wrong...)...)); status != 2 || !strings.Contains(errs, "--wait: name one group") {
			t.Errorf("%v: exit status %d: %s", wrong, status, errs)
		}
	}
}

// deleted waits for a group's deletion with --wait.
func deleted(t *testing.T, g *metacontroller.Group, url string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if _, err := g.Finalize(ctx); err != nil {
		return err
	}
	c := vmgroup(nil, "status", "--server", url, g.Namespace+"/"+g.Name, "--wait", "--generation", fmt.Sprint(g.Generation)) // the page may be a second old
	lines, err := c.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill() })
	last := ""
	for scanner := bufio.NewScanner(lines); scanner.Scan(); {
		if last = scanner.Text(); strings.Contains(last, "deleting") {
			must.Succeed(t, g.Delete(ctx))
		}
	}
	if err := c.Wait(); err != nil || last != "The group is gone." {
		t.Errorf("a group that is deleted: %v: %q", err, last)
	}
	return nil
}

// many is an outage: 40 groups with one fault, and 30 that run.
func many() *page.Status {
	s := &page.Status{VCenter: page.VCenterStatus{Known: true, Address: "vc"}, Called: true, Of: 70}
	for i := range 40 {
		s.Groups = append(s.Groups, page.GroupStatus{Namespace: "shop", Name: fmt.Sprintf("bad-%d", i), State: "Error", Desired: 3, Message: "the datastore has too little free space",
			Since: time.Now().Add(-time.Minute), Why: []page.Why{{Reason: "DatastoreFull", Todo: "Free space on the datastore, or add some. " + strings.Repeat("More of the same advice. ", 10)}}})
	}
	for i := range 30 {
		s.Groups = append(s.Groups, page.GroupStatus{Namespace: "shop", Name: fmt.Sprintf("good-%d", i), State: "Running", Ready: 3, Desired: 3, Message: "successfully reconciled VmGroup"})
	}
	for range 12 {
		s.Recent = append(s.Recent, page.RecentAction{Group: "shop/web"})
	}
	return s
}

func TestStatusSaysEachFaultOnceAndThenWhomItConcerns(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	must.Succeed(t, statusScreen(&out, many(), time.Time{}, 100, 0))
	text := out.String()
	if strings.Count(text, "Free space on the datastore") != 1 || strings.Count(text, "the datastore has too") != 1 || !strings.Contains(text, "DatastoreFull: shop/bad-0, ") || !strings.Contains(text, "and 30 more") {
		t.Errorf("a fault is there more than once, or without its groups:\n%s", text)
	}
	if !strings.Contains(text, "0 of 120") || strings.Count(text, "shop/good-") != 10 || !strings.Contains(text, "… and 20 more that run as their specs say") || !strings.Contains(text, "Recent actions") {
		t.Errorf("the groups that run:\n%s", text)
	}
	if n := len(text); n > 4000 {
		t.Errorf("%d bytes", n)
	}
}

func TestStatusTakesAsManyLinesAsTheScreenHas(t *testing.T) {
	t.Parallel()
	for rows := 5; rows < 80; rows++ {
		var out bytes.Buffer
		must.Succeed(t, statusScreen(&out, many(), time.Time{}, 100, rows))
		text := out.String()
		if n := strings.Count(text, "\n"); n >= rows {
			t.Errorf("%d rows: %d lines", rows, n)
		}
		if text := strings.Join(strings.Fields(text), " "); rows >= 20 && (!strings.Contains(text, "the datastore has too") || !strings.Contains(text, "What to do: Free space") || !strings.Contains(text, "30 groups run as the spec says") && !strings.Contains(text, "that run as their specs say")) {
			t.Errorf("%d rows: what matters is missing:\n%s", rows, text)
		}
		if strings.Contains(text, "more lines") && strings.Contains(text, "Recent actions") {
			t.Errorf("%d rows: recent actions take the place of what is cut", rows)
		}
	}
}

func TestStatusNamesAHostThatIsDownAndCountsTheVMsOfGroupsThatAreNotCalled(t *testing.T) {
	s := page.Status{Called: true, VCenter: page.VCenterStatus{Known: true}, Hosts: []page.HostStatus{{Host: "esx-3", Members: 14, Of: 12, Groups: []string{"a/a", "b/b", "c/c", "d/d"}}}, Of: 2,
		Groups: []page.GroupStatus{{Namespace: "shop", Name: "web", State: "Unreachable", Ready: 2, Desired: 3, Message: "skipped"}, {Namespace: "shop", Name: "other", State: "Not called", VMs: 3}}}
	var out strings.Builder
	if err := statusScreen(&out, &s, time.Time{}, 200, 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"vCenter can't reach 14 members on esx-3: a/a, b/b, c/c and 9 more", "shop/web    2 of 3", "shop/other  3 VMs"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
}
