package cluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// auditPolicy records each write and its user once the API server has answered it, and no reads.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

// Write is a write that the API server answered.
type Write struct {
	User, Verb, Resource, Namespace, Name string
	Code                                  int
	At                                    time.Time // when it was answered
}

func (w Write) String() string {
	return fmt.Sprintf("%s %s %s/%s by %s: %d", w.Verb, w.Resource, w.Namespace, w.Name, w.User, w.Code)
}

func (c *Cluster) auditLog() string { return filepath.Join(c.Dir, "audit.log") }

// Writes returns all answered writes since the cluster started, in order.
func (c *Cluster) Writes() ([]Write, error) {
	text, err := os.ReadFile(c.auditLog())
	if err != nil {
		return nil, err
	}
	var all []Write
	for lines := bufio.NewReader(bytes.NewReader(text)); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil { // the last line may not be complete yet
			return all, nil
		}
		var e struct {
			Verb           string
			User           struct{ Username string }
			ObjectRef      struct{ Resource, Subresource, Namespace, Name string }
			ResponseStatus struct{ Code int }
			StageTimestamp time.Time
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		resource := e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			resource += "/" + e.ObjectRef.Subresource
		}
		all = append(all, Write{e.User.Username, e.Verb, resource, e.ObjectRef.Namespace, e.ObjectRef.Name, e.ResponseStatus.Code, e.StageTimestamp})
	}
}
