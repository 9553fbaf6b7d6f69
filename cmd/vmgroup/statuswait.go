package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/page"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

const (
	forever  = 365 * 24 * time.Hour // --wait without a time
	askAgain = 2 * time.Second
)

// await waits until the group is as its spec says, and writes a line for each change, as kubectl rollout status does. It returns an error as
// soon as nothing changes by itself.
func (s *statusSettings) await(ctx context.Context, target url.URL, out io.Writer) error {
	timeout := time.After(s.wait)
	said, seen, deleting := "", false, false
	for {
		status, err := s.ask(ctx, target)
		gone := unknownGroup("")
		switch {
		case errors.As(err, &gone) && deleting:
			_, err := fmt.Fprintln(out, "The group is gone.")
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &gone) && seen:
			return errors.New("the server no longer knows the group: it was deleted, or the server has restarted")
		case errors.As(err, &gone) && s.generation > 0: // kubectl has seen the group
			if said == "" {
				said = "waiting for Metacontroller to call the server for the group"
				_, _ = fmt.Fprintln(out, said)
			}
		case err != nil && said == "": // later, the server may be restarting
			return err
		case err == nil:
			g := &status.Groups[0]
			seen, deleting = true, g.Deleting
			line, done, stalled := s.progress(&status)
			if line != said {
				if _, err := fmt.Fprintln(out, plan.Printable(line)); err != nil {
					return err
				}
			}
			if said = line; done || stalled {
				return s.verdict(g, stalled)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout:
			return fmt.Errorf("the group isn't as its spec says after %s: %s", s.wait, said)
		case <-time.After(askAgain):
		}
	}
}

// progress says where the group is, and whether it is as its spec says, or nothing changes by itself. A fault of vCenter, or missing calls of
// Metacontroller, can pass.
func (s *statusSettings) progress(status *page.Status) (line string, done, stalled bool) {
	g := &status.Groups[0]
	line = fmt.Sprintf("%s/%s: %s, %d of %d ready: %s", g.Namespace, g.Name, strings.ToLower(g.State), g.Ready, g.Desired, g.Message)
	if g.Deleting {
		line = fmt.Sprintf("%s/%s: deleting: %s", g.Namespace, g.Name, g.Message)
	}
	switch {
	case status.Silent || !status.Called || g.Generation < s.generation:
		return fmt.Sprintf("%s/%s: waiting for Metacontroller to call the server for it", g.Namespace, g.Name), false, false
	case !status.VCenter.Known:
		return fmt.Sprintf("%s/%s: waiting for vCenter: %s", g.Namespace, g.Name, status.VCenter.Message), false, false
	}
	switch g.State {
	case "Running", "Tools silent": // the latter is ready, too
		return line, !g.Deleting, false
	case "Error", "Paused", "Update held":
		return line, false, true
	}
	return line, false, false
}

// verdict returns nil for a group that is as its spec says, and otherwise what to do about it.
func (s *statusSettings) verdict(g *page.GroupStatus, stalled bool) error {
	if !stalled {
		return nil
	}
	text := fmt.Sprintf("the group %s/%s waits for you", g.Namespace, g.Name)
	for _, why := range g.Why {
		text += fmt.Sprintf("\n%s: %s", why.Reason, why.Todo)
	}
	return errors.New(text)
}
