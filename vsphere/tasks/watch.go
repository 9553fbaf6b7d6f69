package tasks

import (
	"context"
	"time"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// The properties of a task that are read or watched. Not "info" as a whole: on a real vCenter each step of its progress would be an update.
const (
	taskState    = "info.state"
	taskError    = "info.error"
	taskResult   = "info.result"
	taskQueued   = "info.queueTime"
	taskStarted  = "info.startTime"
	taskComplete = "info.completeTime"
	taskKind     = "info.descriptionId"
	taskReason   = "info.reason"
	taskEntity   = "info.entity"
)

var taskPaths = []string{taskState, taskError, taskResult, taskQueued, taskStarted, taskComplete}

const (
	// taskWaitSeconds bounds one WaitForUpdatesEx. It stays far below the session's time-out (vCenter's
	// default: 30 min; but vcsim loses a session in a call longer than that) and below answerTimeout.
	taskWaitSeconds = 20
	// taskSilence is how long such a call may take before the server gives it up.
	taskSilence = taskWaitSeconds*time.Second + 10*time.Second
	// cleanTimeout bounds the removal of what was made in vCenter.
	cleanTimeout = 5 * time.Second
)

// watch waits for tasks in one session, with a collector, a list, and a filter over the list. One goroutine uses
// it, except for the wait itself.
type watch struct {
	session   *session.Session
	collector types.ManagedObjectReference
	view      types.ManagedObjectReference
	// listed are the tasks in the list.
	listed  map[types.ManagedObjectReference]bool
	version string
	// changes counts the changes of the list; settled reports whether vCenter has processed the last of them.
	changes int
	settled bool
	// more: the last answer was a page of several.
	more bool
	// broken: the network failed. The objects in vCenter may still exist.
	broken bool
	// abort ends the wait's request when vCenter does not answer a cancel.
	abort context.CancelFunc
}

// answer is the result of a wait; a nil set has no updates. changes and first are as of the beginning of the wait.
type answer struct {
	set     *types.UpdateSet
	err     error
	changes int
	first   bool
}

// newWatch returns a watch with an empty list, which must be closed even if newWatch fails.
func newWatch(ctx context.Context, s *session.Session) (*watch, error) {
	w := &watch{session: s, listed: map[types.ManagedObjectReference]bool{}, abort: func() {}}
	content := s.Vim.ServiceContent
	pc, err := methods.CreatePropertyCollector(ctx, s.Vim, &types.CreatePropertyCollector{This: content.PropertyCollector})
	if err != nil {
		return w, err
	}
	w.collector = pc.Returnval
	view, err := methods.CreateListView(ctx, s.Vim, &types.CreateListView{This: *content.ViewManager})
	if err != nil {
		return w, err
	}
	w.view = view.Returnval
	_, err = methods.CreateFilter(ctx, s.Vim, &types.CreateFilter{
		This: w.collector,
		Spec: types.PropertyFilterSpec{
			PropSet: []types.PropertySpec{{Type: "Task", PathSet: taskPaths}},
			ObjectSet: []types.ObjectSpec{{
				Obj:       w.view,
				Skip:      types.NewBool(true),
				SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{Type: "ListView", Path: "view"}},
			}},
		},
	})
	return w, err
}

// change adds tasks to the list and removes others, in one call. It returns the tasks that vCenter does not know.
func (w *watch) change(ctx context.Context, add, remove []types.ManagedObjectReference) ([]types.ManagedObjectReference, error) {
	w.changes++
	w.settled = false
	res, err := methods.ModifyListView(ctx, w.session.Vim, &types.ModifyListView{This: w.view, Add: add, Remove: remove})
	if err != nil {
		return nil, err
	}
	for _, ref := range remove {
		delete(w.listed, ref)
	}
	for _, ref := range add {
		w.listed[ref] = true
	}
	return res.Returnval, nil
}

// wait begins to wait for updates. Its request outlives ctx, because an abandoned wait continues in vCenter: use cancel.
func (w *watch) wait(ctx context.Context) <-chan answer {
	ctx, w.abort = context.WithCancel(context.WithoutCancel(ctx))
	abort := w.abort
	request := types.WaitForUpdatesEx{
		This:    w.collector,
		Version: w.version,
		Options: &types.WaitOptions{MaxWaitSeconds: types.NewInt32(taskWaitSeconds)},
	}
	a := answer{changes: w.changes, first: w.version == ""}
	answers := make(chan answer, 1)
	go func() {
		defer abort()
		res, err := methods.WaitForUpdatesEx(ctx, w.session.Vim, &request)
		if a.err = err; err == nil {
			a.set = res.Returnval
		}
		answers <- a
	}()
	return answers
}

// note records the version of an answer. Updates after a change of the list show that vCenter has processed the change; the first
// answer does not, because it is a plain read, nor does the next page of an older answer.
func (w *watch) note(a answer) {
	if !a.first && !w.more && a.changes == w.changes {
		w.settled = true
	}
	w.version = a.set.Version
	w.more = a.set.Truncated != nil && *a.set.Truncated
}

// cancel makes vCenter answer the wait. If vCenter does not, the request is given up.
func (w *watch) cancel(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	if _, err := methods.CancelWaitForUpdates(ctx, w.session.Vim, &types.CancelWaitForUpdates{This: w.collector}); err != nil {
		w.abort()
	}
}

// close removes what newWatch made from vCenter, as far as possible. No wait may be under way.
func (w *watch) close(ctx context.Context) {
	if w == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	if w.collector.Value != "" {
		_, _ = methods.DestroyPropertyCollector(ctx, w.session.Vim, &types.DestroyPropertyCollector{This: w.collector})
	}
	if w.view.Value != "" {
		_, _ = methods.DestroyView(ctx, w.session.Vim, &types.DestroyView{This: w.view})
	}
}

// readInfo reads a task's whole info.
func readInfo(ctx context.Context, s *session.Session, ref types.ManagedObjectReference) (types.TaskInfo, error) {
	var t mo.Task
	err := session.Contained("the reading of a task", func() error {
		return property.DefaultCollector(s.Vim).RetrieveOne(ctx, ref, []string{"info"}, &t)
	})
	return t.Info, err
}

// apply applies a change of a watched property.
func apply(info *types.TaskInfo, c types.PropertyChange) {
	switch v := c.Val.(type) {
	case types.TaskInfoState:
		info.State = v
	case types.LocalizedMethodFault:
		info.Error = &v
	case time.Time:
		switch c.Name {
		case taskQueued:
			info.QueueTime = v
		case taskStarted:
			info.StartTime = &v
		case taskComplete:
			info.CompleteTime = &v
		}
	case nil:
	default:
		if c.Name == taskResult {
			info.Result = v
		}
	}
}
