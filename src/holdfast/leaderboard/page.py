"""stub"""
def render_board(entries, suite):
    return "x"
