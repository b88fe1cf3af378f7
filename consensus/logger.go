package consensus

import (
	"context"
	"fmt"
	"log/slog"
)

// raftLogger passes raft's log on. What raft calls info is a line per message in an election: debug here.
type raftLogger struct{ log *slog.Logger }

func (l raftLogger) Debug(v ...any)                   { l.log.Debug(fmt.Sprint(v...)) }
func (l raftLogger) Debugf(format string, v ...any)   { l.debugf(format, v) }
func (l raftLogger) Info(v ...any)                    { l.log.Debug(fmt.Sprint(v...)) }
func (l raftLogger) Infof(format string, v ...any)    { l.debugf(format, v) }
func (l raftLogger) Warning(v ...any)                 { l.log.Warn(fmt.Sprint(v...)) }
func (l raftLogger) Warningf(format string, v ...any) { l.log.Warn(fmt.Sprintf(format, v...)) }
func (l raftLogger) Error(v ...any)                   { l.log.Error(fmt.Sprint(v...)) }
func (l raftLogger) Errorf(format string, v ...any)   { l.log.Error(fmt.Sprintf(format, v...)) }
func (l raftLogger) Fatal(v ...any)                   { panic(fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(format string, v ...any)   { panic(fmt.Sprintf(format, v...)) }
func (l raftLogger) Panic(v ...any)                   { panic(fmt.Sprint(v...)) }
func (l raftLogger) Panicf(format string, v ...any)   { panic(fmt.Sprintf(format, v...)) }

func (l raftLogger) debugf(format string, v []any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug(fmt.Sprintf(format, v...))
	}
}
